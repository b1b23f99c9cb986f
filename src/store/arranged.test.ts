// What an administrator may arrange around our tables, and what goes on all the same: a schema of another name, a publication of every table.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { emptyDatabase } from '../../test/world/postgres.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { backUp } from './backup.ts'
import { openDatabase, type Db } from './database.ts'
import { keepHouse } from './housekeeping.ts'
import { migrate } from './migrate.ts'
import { beginRemoval, carryOnRemoval } from './removal.ts'

const retention = { recordsDays: 90, eventsDays: 30, contentDays: 7, auditDays: 400 }
const shop = '00000000-0000-4000-8000-000000000001' as WorkspaceId

/** In a database where `arrange` comes before the migrations. */
async function arranged(arrange: (name: string) => readonly string[], work: (db: Db) => Promise<void>) {
  const empty = await emptyDatabase()
  const folder = temporaryFolder()
  const open = () => openDatabase(empty.connection, { name: 'test', connectionsMax: 1, answerMs: 15_000 })
  try {
    const before = open()
    for (const statement of arrange(empty.connection.database)) await before.run(statement)
    await before.close()
    await migrate(empty.connection)
    const db = open()
    await db.run(`insert into plans (name) values ('shop')`)
    await db.run(`insert into workspaces (id, name, plan) values ($1, 'Shop', 'shop')`, [shop])
    await db.run(`insert into fresh_counts values ($1, now(), 'sent', 0, 2), ($1, now(), 'sent', 0, 3)`, [shop])
    try {
      await work(db)
    } finally {
      await db.close()
    }
    await backUp(empty.connection, join(folder, 'backup'))
  } finally {
    await empty.drop()
  }
}

test.each([
  [
    'in a schema whose name wants quotes',
    (name: string) => ['create schema "Mail-App"', `alter database ${name} set search_path = "Mail-App"`],
  ],
  ['where all tables are published', () => ['create publication everything for all tables']],
])('%s what is too old is deleted, counts come together, a workspace goes and a backup is made', async (_, arrange) => {
  await arranged(arrange, async (db) => {
    await db.run('create table expired_messages_20200101 ()')
    await keepHouse(db, retention)
    expect(await db.run(`select to_regclass('expired_messages_20200101') expired`)).toEqual([{ expired: null }])
    expect(await db.run('select many::integer from hourly_counts')).toEqual([{ many: 5 }])
    await beginRemoval(db, shop, 'operator:test')
    await carryOnRemoval(db, shop, 'operator:test')
    expect(await db.run('select name from workspaces')).toEqual([])
  })
})

test('every table has what its rows are told apart by, so that who copies changes (a publication) stops none of ours', async () => {
  await arranged(
    () => [],
    async (db) => {
      const without = await db.run(
        `select c.relname from pg_class c
          where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relreplident <> 'f'
            and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
      )
      expect(without).toEqual([])
    },
  )
})
