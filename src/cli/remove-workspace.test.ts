// A customer leaves, as an operator does it: real processes, one of them killed in the middle.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { makeAdmitter } from '../store/admit.ts'
import { saveSystemMailbox } from '../workspace/notices.ts'
import { removeWorkspace } from '../workspace/removal.ts'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'
import { wholeWorkspace } from '../store/whole-workspace.test-kit.ts'
import { around, command, run } from './command.test-kit.ts'

let world: StoreWorld
let folder: string
let env: NodeJS.ProcessEnv

beforeEach(async () => {
  world = await storeWorld()
  folder = temporaryFolder()
  env = around(world.connection, { POSTHORN_DATA_DIR: folder })
})

const posthorn = (...args: readonly string[]) => run(env, args)
const workspaces = async () =>
  (await world.db.run<{ name: string }>('select name from workspaces order by name')).map(({ name }) => name)
const messages = (workspace: string) =>
  world.value<number>('select count(*)::integer from messages where workspace_id = $1', [workspace])

test('what is added by command in the moment in which the removal ends is not, and the command says why', async () => {
  const { workspaceId } = await world.sender()
  const removing = await world.holding(
    `with usage as (delete from usage where workspace_id = $1), boxes as (delete from mailboxes where workspace_id = $1),
       domains as (delete from domains where workspace_id = $1)
     delete from workspaces where id = $1`,
    [workspaceId],
  )
  const adding = [
    ['key', 'create', workspaceId, '--name', 'k', '--scope', 'mail.send'],
    ['suppression', 'add', workspaceId, 'ada@example.org'],
    ['feed', 'add', 'postmark', '--workspace', workspaceId],
    ['user', 'create', '--email', 'ada@example.org', '--workspace', workspaceId, '--role', 'admin'],
  ].map((args) => posthorn(...args))
  await world.untilWaiting(adding.length)
  await removing.query('commit')
  for (const each of await Promise.all(adding))
    expect(each).toEqual({ status: 1, out: '', err: 'posthorn: The workspace was removed meanwhile.\n' })
})

test('it is told first what would go; with --yes it goes, and its name is free', async () => {
  const { workspaceId } = await wholeWorkspace(world, 'shop')
  await wholeWorkspace(world, 'other')
  const told = await posthorn('workspace', 'remove', 'shop')
  expect(told).toEqual({
    status: 1,
    out: '',
    err: `posthorn: Nothing was removed: give --yes to remove "shop" (${workspaceId}) for good, with 3 messages, the domain w1.example and the login of only@shop.example, who belongs to no other workspace; 1100 webhooks that wait to be posted would go unposted.\n`,
  })
  expect(await messages(workspaceId)).toBe(3)

  const { status, out, err } = await posthorn('workspace', 'remove', 'shop', '--yes', '--json')
  expect([status, err]).toEqual([0, ''])
  expect(JSON.parse(out)).toEqual({
    id: workspaceId,
    name: 'shop',
    cancelled: 0,
    rows: expect.any(Number) as number,
  })
  expect(await workspaces()).toEqual(['other'])
  // The same command again, as one is told to give it, finds nobody else: not even who calls theirs the same.
  await world.db.run(`update workspaces set own_name = 'shop' where name = 'other'`)
  const again = await posthorn('workspace', 'remove', 'shop', '--yes')
  expect(again).toMatchObject({ status: 1, err: expect.stringContaining('but its members call "other" (') as string })
  expect(await workspaces()).toEqual(['other'])
  await world.db.run(`update workspaces set own_name = null`)
  expect(await posthorn('workspace', 'remove', 'shop', '--yes')).toMatchObject({
    status: 1,
    err: 'posthorn: There is no workspace "shop"; `posthorn workspace list` shows them all.\n',
  })
  expect(await posthorn('workspace', 'create', '--name', 'shop')).toMatchObject({ status: 0 })
  const audit = await world.db.run<{ line: string }>(
    `select concat_ws(' ', action, target = $1) line from audit_log where actor like 'operator:%' and action like 'workspace.%' and workspace_id is null
      order by at, id`,
    [workspaceId],
  )
  expect(audit.map(({ line }) => line).slice(-3)).toEqual([
    'workspace.removal_begun t',
    'workspace.removed t',
    'workspace.created f',
  ])
})

test('mail that is not final keeps it, and the operator is told how much and what to do; what waits is cancelled on demand alone', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  const admitter = makeAdmitter(world.db)
  for (let n = 0; n < 2; n++) await admitter.admit(world.submission(shop))
  const [armed] = await world.claimed(shop, [{ armed: true }])
  const refused = await posthorn('workspace', 'remove', 'shop', '--yes')
  expect([refused.status, refused.out]).toEqual([1, ''])
  expect(refused.err).toBe(
    `posthorn: "shop" was not removed: 3 messages of it are not final (2 wait in the queue; 1 may be with the receiver already, whose answer decides). Wait until they are; or block it (\`posthorn workspace set ${shop.workspaceId} --status blocked\`), which fails each as it comes due; or give --cancel-queued, which blocks it and fails at once what waits.\n`,
  )
  expect((await posthorn('workspace', 'show', 'shop')).out).toContain('active')

  const cancelled = await posthorn('workspace', 'remove', 'shop', '--cancel-queued', '--yes')
  expect(cancelled.err).toBe(
    'posthorn: "shop" was not removed: 1 message of it is not final (1 may be with the receiver already, whose answer decides). It is blocked, and 2 messages were cancelled: give the same command again in a minute.\n',
  )
  expect((await posthorn('workspace', 'show', 'shop')).out).toContain('blocked')
  expect(await messages(shop.workspaceId)).toBe(6)

  await world.db.run('delete from outbound where message_id = $1', [armed?.id])
  await world.db.run(
    `update messages set status = 'sent', finished_at = app_now() where status = 'sending' and workspace_id = $1`,
    [shop.workspaceId],
  )
  expect((await posthorn('workspace', 'remove', 'shop', '--yes')).out).toMatch(/^Removed: shop \(/)
})

test('what becomes final while it is counted keeps it no longer', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  await makeAdmitter(world.db).admit(world.submission(shop))
  const { db } = world
  const ends = async () => {
    await db.run('delete from outbound where workspace_id = $1', [shop.workspaceId])
    await db.run(
      `update messages set status = 'failed', finished_at = app_now() where status = 'queued' and workspace_id = $1`,
      [shop.workspaceId],
    )
  }
  const counting: typeof db = {
    ...db,
    rows: async (statement, values) => {
      if (statement.name === 'removal-unfinished') await ends()
      return db.rows(statement, values)
    },
  }
  const found = { id: shop.workspaceId, name: 'shop', status: 'active' } as const
  const wish = { isSure: true, cancelsQueued: false }
  expect(await removeWorkspace({ db: counting, systemMailbox: undefined }, 'operator:test', found, wish)).toMatchObject(
    { cancelled: 0 },
  )
  expect(await workspaces()).toEqual([])
})

test('whoever waits is told how much has been cancelled and removed so far', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  await makeAdmitter(world.db).admit(world.submission(shop))
  const said: string[] = []
  const found = { id: shop.workspaceId, name: 'shop', status: 'active' } as const
  const words = { told: (line: string) => said.push(line), tell: (line: () => string) => said.push(line()) }
  const tools = { db: world.db, systemMailbox: undefined }
  const { rows } = await removeWorkspace(tools, 'operator:test', found, { isSure: true, cancelsQueued: true }, words)
  expect(said.slice(0, 2)).toEqual(['messages cancelled so far: 1', expect.stringMatching(/^Removing "shop"/)])
  expect(said.at(-1)).toBe(`${rows} rows so far`)
})

test('behind a restored database nothing is cancelled, for it may have been sent', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  await makeAdmitter(world.db).admit(world.submission(shop))
  await world.db.run(`insert into delivery_stops (kind, reason) values ('fence', 'restored')`)
  const { status, err } = await posthorn('workspace', 'remove', 'shop', '--cancel-queued', '--yes')
  expect([status, err]).toEqual([1, expect.stringContaining('posthorn recover')])
  expect((await posthorn('workspace', 'show', 'shop')).out).toContain('active')
})

test('where another server has taken over and no node has looked yet, nothing is cancelled, and it says what to do', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  await makeAdmitter(world.db).admit(world.submission(shop))
  await world.db.run(`insert into installation (name, value) values ('timeline', '00000000')`)
  const { status, err } = await posthorn('workspace', 'remove', 'shop', '--cancel-queued', '--yes')
  expect([status, err]).toEqual([1, expect.stringContaining('Start the service, and give the same command again')])
  expect((await posthorn('workspace', 'show', 'shop')).out).toContain('active')
})

test('killed in the middle, it takes no changes, and the same command carries it on', async () => {
  const { workspaceId } = await wholeWorkspace(world, 'shop')
  const session = await world.holding('lock table suppressions in access exclusive mode')
  const removing = spawn(command, ['workspace', 'remove', 'shop', '--yes'], { env, stdio: 'ignore', detached: true })
  await world.untilSomebodyWaits()
  process.kill(-(removing.pid as number), 'SIGKILL')
  await once(removing, 'exit')
  await session.query('commit')

  expect(await messages(workspaceId)).toBe(0)
  expect(await workspaces()).toEqual(['shop'])
  expect((await posthorn('workspace', 'list')).out).toMatch(/shop +removing/)
  expect((await posthorn('workspace', 'show', 'shop')).out).toContain('being removed since')
  for (const args of [
    ['workspace', 'set', 'shop', '--status', 'active'],
    ['key', 'create', 'shop', '--name', 'k', '--scope', 'mail.send'],
    ['domain', 'add', 'shop', 'example.org'],
  ])
    expect(await posthorn(...args)).toMatchObject({
      status: 1,
      err: `posthorn: The workspace "shop" is being removed. \`posthorn workspace remove ${workspaceId}\` carries that on, and so does the service.\n`,
    })
  expect((await posthorn('workspace', 'create', '--name', 'shop')).err).toBe(
    'posthorn: The workspace that is named "shop" is being removed: the name is free when that has ended.\n',
  )
  // It was asked whether that is wanted: no more.
  expect(await posthorn('workspace', 'remove', 'shop')).toMatchObject({ status: 0 })
  expect(await workspaces()).toEqual([])
})

test("the installation's own workspace stays: nobody would be told of a lost password any more", async () => {
  const own = await wholeWorkspace(world, 'own')
  await saveSystemMailbox(world.db, own.workspaceId, own.mailboxId)
  const named = await wholeWorkspace(world, 'named')
  env['POSTHORN_SYSTEM_MAILBOX'] = named.mailboxId
  for (const name of ['own', 'named'])
    expect(await posthorn('workspace', 'remove', name, '--yes')).toMatchObject({
      status: 1,
      err: `posthorn: The installation sends its own mail, such as password resets, from a mailbox of "${name}"; it stays.\n`,
    })
})

test('a plan that nothing has is removed; else it is told what has it, and the plain one stays', async () => {
  for (const name of ['gold', 'silver']) await posthorn('plan', 'set', name)
  for (const name of ['Shop', 'Baker']) await posthorn('workspace', 'create', '--name', name, '--plan', 'gold')
  expect(await posthorn('plan', 'remove', 'gold')).toEqual({
    status: 1,
    out: '',
    err: 'posthorn: The plan "gold" stays, for 2 workspaces have it: "Baker", "Shop". `posthorn workspace set ... --plan` gives them another.\n',
  })
  expect((await posthorn('plan', 'remove', 'silver', '--json')).out).toBe('{\n  "removed": "silver"\n}\n')
  expect((await posthorn('plan', 'remove', 'silver')).err).toContain('There is no plan "silver"')
  expect((await posthorn('plan', 'remove', 'unlimited')).err).toBe(
    'posthorn: The plan "unlimited" stays: a new workspace has it where no other is named.\n',
  )
  const audit = await world.value(`select string_agg(target, ',') from audit_log where action = 'plan.removed'`)
  expect(audit).toBe('silver')
})
