// Two workspaces over a real database: `shop`, whose domain is verified, and `other`, which has nothing of it.
import { afterAll } from 'vitest'
import { freshDatabase } from '../../test/world/postgres.ts'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { openDatabase } from '../store/database.ts'
import { addDomain, createWorkspace, type By } from './workspace.ts'

export const vault = makeVault('v'.repeat(32))
export const by = (workspaceId: WorkspaceId): By => ({ workspaceId, actor: 'cli', scopes: new Set() })

export const database = await freshDatabase()
export const db = openDatabase(database.connection, { name: 'test', connectionsMax: 4, answerMs: 10_000 })
export const tools = { db, vault, hostname: 'mail.example.net' }
export const shop = await createWorkspace(db, vault, 'Shop', 'unlimited')
export const other = await createWorkspace(db, vault, 'Other', 'unlimited')
await addDomain(tools, shop.id, 'example.org', true)
afterAll(async () => {
  await db.close()
  await database.drop()
})
