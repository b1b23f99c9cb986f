// A workspace that is removed by command while it sends and the nemesis strikes, the command itself killed again and again. Of the workspace nothing is left in any table;
// nothing was accepted, and nothing sent, behind the command's word; and none of its mail was sent twice.
import { setTimeout as pause } from 'node:timers/promises'
import { startLoad } from '../load.ts'
import type { AfterAll, Beside, Scene } from './scene.ts'

const share = 0.12
const first = 2_000_000
const killsMost = 3
const commandMsMost = 1_500
/** How long a dot may be on its way to the receiver's ledger. */
const onItsWayMs = 3_000

export async function workspaceRemoved({ fronts, chance, messages, at, open, operator }: Scene): Promise<Beside> {
  const many = Math.ceil(messages * share)
  const { shop, login } = await open()
  const load = startLoad({ shop, nodes: fronts, login, messages: many, first, chance })
  const begins = 0.3 + 0.3 * chance.next()
  const kills = chance.below(killsMost + 1)
  const killAfter = Array.from({ length: kills }, () => chance.below(commandMsMost))
  let removedAt = Infinity

  const handIn = async (): Promise<void> => {
    for (let n = 1; n <= many; n++) {
      await at(n / (many + 1))
      load.allow(n)
    }
    await load.over
  }
  const remove = async (): Promise<void> => {
    await at(begins)
    for (;;) {
      const words = ['workspace', 'remove', shop.id, '--yes', '--cancel-queued']
      const { status, said } = await operator(words, { killAfterMs: killAfter.shift() })
      // Where the command was killed, a node may have carried it on to its end.
      if (status === 0 || /no workspace/i.test(said)) break
      await pause(200)
    }
    removedAt = Date.now()
  }

  return {
    told: load.told,
    removed: shop.id,
    over: Promise.all([handIn(), remove()]),
    breaches: async ({ ledger, query }) => [
      ...(await rowsLeft(shop.id, query)),
      ...load.told.flatMap(({ recipient, answer, words, askedAt }) =>
        answer === 'accepted' && askedAt > removedAt
          ? [`removal: ${recipient} was accepted behind the removal`]
          : answer === 'refused' && !isOfRemoval(words ?? '')
            ? [`removal: ${recipient} was refused: ${words}`]
            : [],
      ),
      ...ledger.flatMap(({ to: [to], at: dotAt }) =>
        load.told.some(({ recipient }) => recipient === to) && Date.parse(dotAt) > removedAt + onItsWayMs
          ? [`removal: ${to} got mail ${dotAt}, behind the removal`]
          : [],
      ),
    ],
  }
}

const isOfRemoval = (words: string): boolean =>
  /workspace_blocked|mailbox_not_active|unauthorized|invalid_api_key|\b535\b|recipient_suppressed|blocked/.test(words)

/** In every table that has rows of workspaces, also in those that a release of tomorrow makes. */
async function rowsLeft(workspace: string, query: AfterAll['query']): Promise<string[]> {
  const tables = await query<{ name: string }>(
    `select c.oid::regclass::text name from pg_class c join pg_attribute a on a.attrelid = c.oid
      where a.attname = 'workspace_id' and not a.attisdropped and c.relkind in ('r', 'p') and not c.relispartition
        and c.relnamespace = current_schema()::regnamespace
     union all select 'workspaces'`,
  )
  const left: string[] = []
  for (const { name } of tables) {
    const [row] = await query<{ many: number }>(
      `select count(*)::integer many from ${name} where ${name === 'workspaces' ? 'id' : 'workspace_id'} = '${workspace}'`,
    )
    if (row !== undefined && row.many > 0) left.push(`removal: ${row.many} rows are left in ${name}`)
  }
  const [stray] = await query<{ many: number }>(
    `select count(*)::integer many from blobs b
      where not exists (select from staged_blobs s where s.id = b.id) and not exists (select from contents c where c.body_blob = b.id)
        and not exists (select from attachments a where a.blob_id = b.id)`,
  )
  if (stray !== undefined && stray.many > 0) left.push(`removal: ${stray.many} blobs belong to nobody`)
  return left
}
