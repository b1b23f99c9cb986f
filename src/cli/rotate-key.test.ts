// A rotation of the installation key as an operator does it: real processes, killed in the middle, begun again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { beforeEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { silentLog } from '../base/log.ts'
import { makeVault, sealedAs, type Vault } from '../base/secret.ts'
import { embeddedPostgres } from '../embedded/embedded.ts'
import { openVault } from '../store/mac-root.ts'
import { resealAll, sealedColumns } from '../store/sealed.ts'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'
import { around, bare, command, run } from './command.test-kit.ts'

const [oldKey, newKey] = ['o'.repeat(32), 'n'.repeat(32)]
let world: StoreWorld
let folder: string

beforeEach(async () => {
  world = await storeWorld()
  folder = temporaryFolder()
})

const environment = (keys: NodeJS.ProcessEnv) => around(world.connection, { POSTHORN_DATA_DIR: folder, ...keys })

async function rotate(keys: NodeJS.ProcessEnv, ...args: string[]): Promise<unknown> {
  const { status, out, err } = await run(environment(keys), ['rotate-key', '--json', ...args])
  expect({ status, err }).toEqual({ status: 0, err: '' })
  return JSON.parse(out)
}

/** So many DKIM keys, and one of everything else, sealed with this vault. */
async function fill(vault: Vault, many: number): Promise<void> {
  const { workspaceId, domainId } = await world.sender()
  const name = await world.value<string>('select name from domains where id = $1', [domainId])
  const place = sealedAs.dkimKey(workspaceId, name)
  await world.db.run(
    `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, state, retired_at)
     select $1, $2, 's' || n, 'rsa-sha256', '', sealed, 'retired', now() from unnest($3::bytea[]) with ordinality keys (sealed, n)`,
    [workspaceId, domainId, Array.from({ length: many }, (_, n) => vault.seal(`dkim ${n}`, place))],
  )
  await world.db.run('update workspaces set route_sealed = $2 where id = $1', [
    workspaceId,
    vault.seal('smtps://u:p@relay.example', sealedAs.route(workspaceId)),
  ])
  const secret = sealedAs.webhookSecret(workspaceId)
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, types, api_version, secret_sealed, next_sealed)
     values ($1, 'https://x.example', null, '2026-11-01', $2, $3)`,
    [workspaceId, vault.seal('whsec_1', secret), vault.seal('whsec_2', secret)],
  )
}

test('every sealed column of the schema stands in the table', async () => {
  const columns = await world.db.run<{ name: string }>(
    `select table_name || '.' || column_name name from information_schema.columns
      where table_schema = 'public' and column_name like '%\\_sealed'
        and table_name not in (select v.table_name from information_schema.views v) order by 1`,
  )
  const known = sealedColumns.map(({ table, column }) => `${table}.${column}`).toSorted()
  expect(columns.map(({ name }) => name)).toEqual(known)
})

test('a rotation that is killed in the middle is begun again, and nothing is lost', async () => {
  const many = 1_000
  const before = await openVault({ all: () => [oldKey] }, world.db)
  await fill(before, many)
  const passwords = before.macKey('smtp-password')
  const keys = { POSTHORN_SECRET_KEY: newKey, POSTHORN_SECRET_KEYS_ACCEPTED: oldKey }

  const child = spawn(command, ['rotate-key'], { env: environment(keys), stdio: 'ignore' })
  const ended = once(child, 'exit')
  const isNew = makeVault(newKey)
  const sealedNew = async (): Promise<number> => {
    const rows = await world.db.run<{ id: string; name: string; sealed: Buffer }>(
      `select d.workspace_id id, d.name, k.private_key_sealed sealed from dkim_key_pairs k join domains d on d.id = k.domain_id where k.selector like 's%'`,
    )
    return rows.filter(({ id, name, sealed }) => isNew.isCurrent(sealed, sealedAs.dkimKey(id, name))).length
  }
  while ((await sealedNew()) === 0) expect(child.exitCode).toBeNull()
  child.kill('SIGKILL')
  await ended
  expect(await sealedNew()).toBeLessThan(many)

  const again = (await rotate(keys)) as { seen: number; resealed: number }
  expect(again.seen).toBe(many + 4) // a route, two webhook secrets, the root of MACs
  expect(again.resealed).toBeLessThan(many + 4)
  expect(await rotate(keys, '--finish')).toMatchObject({ resealed: 0, finished: true })

  // The one that was killed had told already who began it.
  const told = await world.db.run<{ action: string; actor: string }>(
    `select action, actor from audit_log where action like 'installation_key.%' order by id`,
  )
  expect(told.map(({ action }) => action)).toEqual([
    'installation_key.rotated',
    'installation_key.rotated',
    'installation_key.rotation_finished',
  ])
  expect(told.every(({ actor }) => /^operator:./.test(actor))).toBe(true)

  const after = await openVault({ all: () => [newKey] }, world.db)
  expect((await resealAll(world.db, after)).resealed).toBe(0)
  expect(after.macKey('smtp-password').equals(passwords)).toBe(true)
  await expect(openVault({ all: () => [oldKey] }, world.db)).rejects.toThrow(/does not open/)
})

test('the old key may have commas and blanks of its own', async () => {
  const chosen = ' a long sentence, with commas, that somebody chose '
  await fill(await openVault({ all: () => [chosen] }, world.db), 1)
  const keys = { POSTHORN_SECRET_KEY: newKey, POSTHORN_SECRET_KEYS_ACCEPTED: chosen }
  expect(await rotate(keys)).toMatchObject({ resealed: 5 })
  expect(await rotate(keys, '--finish')).toMatchObject({ resealed: 0, finished: true })
})

test('without the old key at hand it says what to set, and changes nothing', async () => {
  await openVault({ all: () => [oldKey] }, world.db)
  const { status, err } = await run(environment({ POSTHORN_SECRET_KEY: oldKey }), ['rotate-key', '--json'])
  expect(status).not.toBe(0)
  expect(err).toMatch(/POSTHORN_SECRET_KEYS_ACCEPTED/)
  expect(await world.value('select count(*)::integer from audit_log')).toBe(0)
})

test('of two who change the key in the file at once, none takes away the key that opens', async () => {
  chmodSync(folder, 0o711) // as root, PostgreSQL's user passes through
  const dataDir = join(folder, 'data')
  const postgres = embeddedPostgres({ dataDir, purpose: 'serve', log: silentLog })
  const { connection } = await postgres.start()
  const [late, early] = [new Client(connection), new Client(connection)]
  const posthorn = (...args: string[]) => run({ ...bare, POSTHORN_DATA_DIR: dataDir }, args)
  const isWaiting = async (table: string): Promise<boolean> =>
    (await late.query(`select from pg_locks where not granted and relation = $1::regclass`, [table])).rowCount === 1
  try {
    await posthorn('workspace', 'create', '--name', 'Shop')
    expect(await posthorn('domain', 'add', 'Shop', 'shop.example', '--verified')).toMatchObject({ status: 0 })
    await Promise.all([late.connect(), early.connect()])
    // One has found that nothing needs another key than this, but for the last table.
    await late.query('begin; lock table webhook_endpoints')
    const finishing = posthorn('rotate-key', '--finish')
    await expect.poll(() => isWaiting('webhook_endpoints'), { timeout: 20_000 }).toBe(true)
    // The other one has made a new key by then, and sealed next to nothing with it.
    await early.query('begin; lock table dkim_key_pairs')
    const beginning = posthorn('rotate-key')
    const begun = expect.poll(() => isWaiting('dkim_key_pairs'), { timeout: 20_000 }).toBe(true)
    await Promise.race([begun, beginning])
    await late.query('commit')
    expect(await finishing).toMatchObject({ status: 0 })
    await early.query('commit')
    expect(await beginning).toMatchObject({ status: 1, err: expect.stringMatching(/^posthorn: Another/) as string })

    expect(await posthorn('rotate-key')).toMatchObject({ status: 0 })
    expect(readFileSync(join(dataDir, 'secret-key'), 'utf8').trim().split('\n')).toHaveLength(2)
    expect(await posthorn('rotate-key', '--finish')).toMatchObject({ status: 0 })
  } finally {
    await Promise.all([late.end(), early.end()])
    await postgres.stop()
  }
}, 120_000)
