// The first workspace is whole, or not there: its key is shown once, so half of one could never be made good.
import { afterAll, expect, test } from 'vitest'
import { freshDatabase } from '../test/world/postgres.ts'
import { aWorkspace, makeFirstLogin, makeFirstWorkspace } from './first-workspace.ts'
import { sealedAs } from './base/secret.ts'
import { openDatabase } from './store/database.ts'
import { readFirstSecrets } from './store/first-secrets.ts'
import { openVault } from './store/mac-root.ts'
import { isMailReal } from './store/routes.ts'
import { welcome } from './welcome.ts'
import { readSettings } from './config.ts'
import { beginLoginAnew } from './workspace/workspace.ts'

const database = await freshDatabase()
const db = openDatabase(database.connection, { name: 'first', connectionsMax: 2, answerMs: 5_000 })
afterAll(async () => {
  await db.close()
  await database.drop()
})

test('what fails on its way leaves nothing, and the next start makes it; of two starts one does', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  const make = () => makeFirstWorkspace(db, vault, 'node.test')
  const workspaces = () => db.run('select name from workspaces')
  // Its last part, as where the process dies just before it.
  await db.run('alter table smtp_credentials rename to away')
  await expect(make()).rejects.toThrow(/smtp_credentials/)
  expect(await workspaces()).toEqual([])
  await db.run('alter table away rename to smtp_credentials')
  const made = await Promise.all([make(), make()])
  expect(made.filter((each) => each !== undefined)).toEqual([expect.objectContaining({ name: 'My workspace' })])
  expect(await workspaces()).toHaveLength(1)
  expect(await make()).toBeUndefined()
})

test('of two nodes that start at the same time one makes the first login, and the other starts all the same', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  const waits =
    'select count(*)::integer many from pg_locks l where not l.granted and pg_backend_pid() = any (pg_blocking_pids(l.pid))'
  const other = db.transaction(async (tx) => {
    await tx.run(
      `insert into users (id, email, email_key) values (gen_random_uuid(), 'owner@posthorn.localhost', 'owner@posthorn.localhost')`,
    )
    const made = expect(makeFirstLogin(db, vault)).resolves.toBeUndefined()
    while ((await tx.run<{ many: number }>(waits))[0]?.many === 0) continue
    return { made }
  })
  await (
    await other
  ).made
  await db.run('delete from users')
})

test('what the first start printed is told until it is good no more: the login with its first password, the key, the SMTP credential', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  const login = await makeFirstLogin(db, vault)
  const [key, credential] = await Promise.all([
    db.run<{ id: string }>(`select id from api_keys where name = 'first key'`),
    db.run<{ id: string }>(`select id from smtp_credentials where name = 'first credential'`),
  ])
  const first = [
    { kind: 'login', target: login?.email },
    { kind: 'key', target: key[0]?.id },
    { kind: 'credential', target: credential[0]?.id },
  ]
  expect(await readFirstSecrets(db)).toEqual(first)
  await beginLoginAnew(db, 'operator:me', login?.email ?? '')
  expect(await readFirstSecrets(db)).toEqual(first.slice(1))
  await db.run('update api_keys set revoked_at = app_now()')
  await db.run('update smtp_credentials set revoked_at = app_now()')
  expect(await readFirstSecrets(db)).toEqual([])
})

test('the commands that a later start prints name a workspace that there is, in a form that a shell reads as one word', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  const printed = async () => welcome(readSettings({}), undefined, undefined, await aWorkspace(db, vault), 'no engine')
  expect(await printed()).toContain('key create "My workspace" --name')
  await db.run(`update workspaces set name = 'Shop'`)
  expect(await printed()).toContain('key create "Shop" --name')
  expect(await printed()).toContain('--workspace "Shop" --role owner')
  const [row] = await db.run<{ id: string }>('select id from workspaces')
  for (const name of ['Shop "$(id)"', '-shop']) {
    await db.run('update workspaces set name = $1', [name])
    expect(await printed()).toContain(`key create "${row?.id}" --name`)
  }
})

test('who reads the start sees that nobody delivers, why, and the command that ends it', () => {
  const printed = (kind: 'fence' | 'pause' | 'drain', reason: string) =>
    welcome(readSettings({}), undefined, undefined, 'Shop', 'no engine', [{ kind, reason }])
  expect(welcome(readSettings({}), undefined, undefined, 'Shop', 'no engine')).not.toContain('DELIVERY')
  for (const reason of [
    'restored',
    'another_server',
    'behind',
    'no_mark',
    'orphaned_reply',
    'operator',
    'of a later release',
  ])
    expect(printed('fence', reason)).toMatch(
      new RegExp(`DELIVERY IS STOPPED \\(${reason}\\)[^]*recover --assume-sent-since TIME\n +\\S+ recover --resume\n`),
    )
  expect(printed('fence', 'restored')).toContain('A backup was restored')
  expect(printed('drain', 'operator')).toMatch(/DELIVERY IS STOPPED by posthorn drain[^]*\/posthorn drain --off\n/)
  expect(printed('pause', 'timeline')).toMatch(/DELIVERY WAITS \(timeline\)[^]*goes on by itself/)
})

test('who reads the start is not told that nothing leaves this machine where one workspace has a route of its own', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  await makeFirstWorkspace(db, vault, 'node.test')
  const goes = async () => {
    const isReal = await isMailReal(db, vault, { kind: 'sandbox' })
    return /^ {2}Mail goes {2}(.*)$/m.exec(
      welcome(readSettings({}), undefined, undefined, 'Shop', 'no engine', [], isReal),
    )?.[1]
  }
  expect(await goes()).toBe('sandbox: nothing leaves this machine')
  const [row] = await db.run<{ id: string }>('select id from workspaces')
  await db.run('update workspaces set route_sealed = $1', [vault.seal('mx', sealedAs.route(row?.id ?? ''))])
  expect(await goes()).toBe('sandbox, but for workspaces with a route of their own')
})

test('who is shown the first SMTP login is told of the certificate that libraries refuse, as long as it is ours', () => {
  const first = {
    name: 'My workspace',
    key: 'ph_EXAMPLE',
    mailboxId: 'm',
    sender: 'hello@mail.example',
    smtp: { username: 'smtp-EXAMPLE', password: 'EXAMPLE' },
  }
  const told = (settings: Record<string, string>) =>
    welcome(readSettings(settings), first, undefined, 'My workspace', 'no engine').includes('self-signed')
  expect([told({}), told({ POSTHORN_TLS_CERT: '/c.pem', POSTHORN_TLS_KEY: '/k.pem' })]).toEqual([true, false])
})
