// The first workspace is whole, or not there: its key is shown once, so half of one could never be made good.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../test/world/postgres.ts'
import { aWorkspace, makeFirstWorkspace } from './first-workspace.ts'
import { openDatabase, type Db } from './store/database.ts'
import { openVault } from './store/mac-root.ts'
import { welcome } from './welcome.ts'
import { readSettings } from './config.ts'

let database: FreshDatabase
let db: Db
beforeAll(async () => {
  database = await freshDatabase()
  db = openDatabase(database.connection, { name: 'first', connectionsMax: 2, answerMs: 5_000 })
})
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

test('the commands that a later start prints name a workspace that there is, in a form that a shell reads as one word', async () => {
  const vault = await openVault({ all: () => ['k'.repeat(32)] }, db)
  const printed = async () => welcome(readSettings({}), undefined, undefined, await aWorkspace(db, vault), 'no engine')
  expect(await printed()).toContain('key create "My workspace" --name')
  await db.run(`update workspaces set name = 'Shop'`)
  expect(await printed()).toContain('key create "Shop" --name')
  expect(await printed()).toContain('--workspace "Shop" --role owner')
  await db.run(`update workspaces set name = 'Shop "$(id)"'`)
  const [row] = await db.run<{ id: string }>('select id from workspaces')
  expect(await printed()).toContain(`key create "${row?.id}" --name`)
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
