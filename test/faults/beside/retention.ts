// Mail of half a year ago, which housekeeping forgets with its partitions while mail of today goes through the same tables and the nemesis strikes: the old is gone in
// the end, table by table, and the ledgers tell that nothing else is.
import { setTimeout as pause } from 'node:timers/promises'
import type { Beside, Scene } from './scene.ts'

const [oldestDays, newestDays] = [208, 200]
/** Longer than anything is kept, with the width of a partition. */
const longAgoDays = 130
const many = 200
const patienceMs = 60_000

export async function oldMailForgotten({ open, query, at, deploy }: Scene): Promise<Beside> {
  const { shop } = await open()
  const broken: string[] = []
  // One by one, as housekeeping makes them: several in one transaction would meet the nodes' own statements in a deadlock.
  const another = `select ensure_partitions(now() - interval '${oldestDays} days', now() - interval '${newestDays} days', 1) made`
  for (let made = 1; made > 0;) made = (await query<{ made: number }>(another))[0]?.made ?? 0
  await query(`
    with old as (
      select (left(uuid_floor(t)::text, 14) || substr(gen_random_uuid()::text, 15))::uuid id, t
        from (select now() - interval '${oldestDays} days' + n * interval '${oldestDays - newestDays} days' / ${many} t
                from generate_series(0, ${many - 1}) n) times),
    record as (
      insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
      select '${shop.id}', id, '${shop.mailboxId}', 'rest', 'sent', 1, 'a@b.example', 'old@b.example', 'old@b.example', 'Old', 'one.test', t, t from old),
    content as (insert into contents (workspace_id, message_id, body_text) select '${shop.id}', id, 'Long ago.' from old)
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
    select '${shop.id}', id, 1, 'message.queued', 'queued', 0, t from old`)

  /** Tables that still have some of it. */
  const left = async (): Promise<string[]> =>
    (
      await query<{ child: string }>(
        `select child from dated_partitions() where ends < now() - interval '${longAgoDays} days'
         union all select relname::text from pg_class where relname like 'expired\\_%' and relkind = 'r'`,
      )
    ).map(({ child }) => child)
  const forgotten = async (): Promise<void> => {
    await at(1)
    // Housekeeping begins with a start of a node, and most campaigns have had some.
    if ((await left()).length > 0) await deploy({})
    for (const deadline = Date.now() + patienceMs; ; await pause(200)) {
      const tables = await left()
      if (tables.length === 0) return
      if (Date.now() > deadline) return void broken.push(`retention: ${tables.join(', ')} are still there`)
    }
  }
  return { over: forgotten(), breaches: () => Promise.resolve(broken) }
}
