// Two workspaces over a real database: `shop`, whose domain is verified, and `other`, which has nothing of it.
import { afterAll, beforeAll } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { openDatabase, type Db } from '../store/database.ts'
import { addDomain, createWorkspace, type By, type Workspace } from './workspace.ts'

export const vault = makeVault('v'.repeat(32))
export let database: FreshDatabase
export let db: Db
export let tools: { db: Db; vault: typeof vault; hostname: string }
export let shop: Workspace
export let other: Workspace
export const by = (workspaceId: WorkspaceId): By => ({ workspaceId, actor: 'cli', scopes: new Set() })

beforeAll(async () => {
  database = await freshDatabase()
  db = openDatabase(database.connection, { name: 'test', connectionsMax: 4, answerMs: 10_000 })
  tools = { db, vault, hostname: 'mail.example.net' }
  shop = await createWorkspace(db, vault, 'Shop', 'unlimited')
  other = await createWorkspace(db, vault, 'Other', 'unlimited')
  await addDomain(tools, shop.id, 'example.org', true)
})
afterAll(async () => {
  await db.close()
  await database.drop()
})
