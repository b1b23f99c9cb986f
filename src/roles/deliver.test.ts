// How the parts of the role hang together, where a wrong wire would still look right: each setting that says how long something is kept, and
// the question that every connection asks which claims or arms.
import { generateKeyPairSync } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import { silentLog } from '../base/log.ts'
import { makeMetrics } from '../base/metrics.ts'
import { makeVault, sealedAs } from '../base/secret.ts'
import { readSettings } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { startRoles, type RunningRoles } from '../node.ts'
import { makeAdmitter } from '../store/admit.ts'
import { readStops } from '../store/fence.ts'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'

const vault = makeVault('a key for the tests of roles')
const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
}) as string
let world: StoreWorld
let folder: string
beforeEach(async () => {
  world = await storeWorld()
  folder = temporaryFolder()
})

const started = (
  environment: Readonly<Record<string, string>> = {},
  connection = world.connection,
): Promise<RunningRoles> =>
  startRoles(['deliver'], {
    settings: readSettings({ POSTHORN_DATA_DIR: folder, POSTHORN_HOSTNAME: 'node.test', ...environment }),
    connection,
    vault,
    log: silentLog,
    metrics: makeMetrics('deliver'),
  })
/** Hands in mail to the simulator, of a workspace that may send. */
async function submitter(): Promise<() => Promise<MessageId>> {
  const sender = await world.sender()
  const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
  await world.db.run(
    `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed)
     values ($1, $2, 's1', 'rsa-sha256', 'x', $3)`,
    [sender.workspaceId, sender.domainId, vault.seal(pem, sealedAs.dkimKey(sender.workspaceId, name))],
  )
  const recipient = `delivered@${simulatorDomain}`
  const admitter = makeAdmitter(world.db)
  return async () => {
    const row = world.submission(sender, { recipient, recipient_key: recipient, destination: simulatorDomain })
    expect((await admitter.admit(row)).admitted).toBe(true)
    return row.fields['id'] as MessageId
  }
}
const statusOf = (id: MessageId) => world.value<string>('select status from messages where id = $1', [id])
/** Asks until it is so; the test's own time is the limit. */
const until = async (isSo: () => Promise<boolean>): Promise<void> => {
  while (!(await isSo())) continue
}

test('each thing is kept for as long as the setting with its own name says', async () => {
  const sender = await world.sender()
  const [claim] = await world.claimed(sender, [{}])
  await world.db.run('delete from outbound')
  await world.db.run(`update messages set status = 'sent', finished_at = app_now()`)
  const audit = (action: string, daysAgo: number) =>
    world.db.run(
      `insert into audit_log (id, at, actor, action)
       values (uuid_floor(app_now() - $2 * interval '1 day'), app_now() - $2 * interval '1 day', 'cli', $1)`,
      [action, daysAgo],
    )
  await audit('of that day', 0)
  await world.setClock(new Date(Date.now() + 100 * 86_400_000).toISOString())
  const days: Record<string, string> = {
    POSTHORN_KEEP_RECORDS_DAYS: '1000',
    POSTHORN_KEEP_EVENTS_DAYS: '1000',
    POSTHORN_KEEP_CONTENT_DAYS: '1000',
    POSTHORN_KEEP_AUDIT_DAYS: '1000',
  }
  /** What is left of that day behind a round. */
  const kept = async () => {
    await audit('oldest', 2_000) // goes with the last work of a round
    const running = await started(days)
    await until(() => world.value<boolean>(`select not exists (select from audit_log where action = 'oldest')`))
    await running.stop()
    return world.value<string>(
      `select concat_ws(' ', (select 'content' from contents where message_id = $1), (select distinct 'events' from events where message_id = $1),
                        (select 'record' from messages where id = $1), (select 'audit' from audit_log where action = 'of that day'))`,
      [claim?.id],
    )
  }
  expect(await kept()).toBe('content events record audit')
  for (const [name, left] of [
    ['CONTENT', 'events record audit'],
    ['EVENTS', 'record audit'],
    ['RECORDS', 'audit'],
    ['AUDIT', ''],
  ] as const) {
    days[`POSTHORN_KEEP_${name}_DAYS`] = '20'
    expect(await kept(), name).toBe(left)
  }
})

test('every new connection that claims or arms asks which database it leads to; from one that has lost commits nothing is sent', async () => {
  // An arm writes to this table as well, but never the name.
  await world.db.run('create table asked (n serial, pid integer, pool text)')
  await world.db.run(`create function note_asked() returns trigger language plpgsql as
    $$ begin insert into asked (pid, pool) values (pg_backend_pid(), current_setting('application_name')); return null; end $$`)
  await world.db.run(`create trigger note_asked after insert or update of name on delivering_nodes
    for each row execute function note_asked()`)
  const submit = await submitter()
  const connections = () =>
    world.db.run<{ pid: number; pool: string; asked: boolean }>(
      `select a.pid, a.application_name pool, exists (select from asked q where q.pid = a.pid) asked
         from pg_stat_activity a
        where a.datname = current_database() and a.application_name in ('posthorn deliver', 'posthorn arm')`,
    )
  const endAll = async () => {
    const pids = (await connections()).map(({ pid }) => pid)
    await world.db.run('select pg_terminate_backend(pid) from unnest($1::integer[]) pid', [pids])
    await until(async () => !(await connections()).some(({ pid }) => pids.includes(pid)))
  }

  const running = await started()
  try {
    // The first connections, and those behind a break.
    for (let life = 1; life <= 2; life += 1) {
      const id = await submit()
      await until(async () => (await statusOf(id)) === 'sent')
      await until(async () => {
        const now = await connections()
        return new Set(now.map(({ pool }) => pool)).size === 2 && now.every(({ asked }) => asked)
      })
      await endAll()
    }
    await world.db.run('update delivering_nodes set counter = 0') // as after a restore
    await endAll()
    const id = await submit()
    await until(async () => (await readStops(world.db.rows)).length > 0)
    expect(await readStops(world.db.rows)).toMatchObject([{ kind: 'fence', reason: 'behind' }])
    expect(await statusOf(id)).toBe('queued')
  } finally {
    await running.stop()
  }
})

test('a heartbeat whose line fell silent is asked again over another while its lease lasts', async () => {
  const proxy = await startPostgresProxy(world.connection)
  const leaseMs = 12_000
  const running = await started(
    { POSTHORN_LEASE_SECONDS: String(leaseMs / 1_000) },
    { ...world.connection, host: '127.0.0.1', port: proxy.port },
  )
  try {
    await proxy.silence('prove-commit', 'before')
    const since = performance.now()
    await proxy.cut('prove-commit', 'before')
    // The one before it may be a third of a lease ago.
    expect(performance.now() - since).toBeLessThan((leaseMs * 2) / 3)
  } finally {
    await running.stop()
    await proxy.stop()
  }
})

// An operator's psql, left open within a transaction.
test('mail is delivered past a message that somebody holds, and that one when it is free', async () => {
  await world.db.run('create table waited (pool text, most text)')
  await world.db.run(`create function note_waits() returns trigger language plpgsql as
    $$ begin insert into waited values (current_setting('application_name'), current_setting('lock_timeout')); return null; end $$`)
  await world.db.run(
    'create trigger note_waits after insert or update on outbound for each statement execute function note_waits()',
  )
  await world.db.run(
    'create trigger note_ends after delete on outbound for each statement execute function note_waits()',
  )
  const submit = await submitter()
  const [held, free] = [await submit(), await submit()]
  const holder = await world.holding('select from messages where id = $1 for update', [held])
  const running = await started()
  try {
    await until(async () => (await statusOf(free)) === 'sent')
    expect(await statusOf(held)).toBe('queued')
    await holder.query('rollback')
    await until(async () => (await statusOf(held)) === 'sent')
    // Whoever claims, arms or ends.
    expect(
      await world.db.run(
        `select distinct pool, most from waited where pool not in ('test', 'posthorn house') order by pool`,
      ),
    ).toEqual(['arm', 'deliver', 'finish'].map((pool) => ({ pool: `posthorn ${pool}`, most: '1s' })))
  } finally {
    await running.stop()
  }
})
