// Roles as they are started and stopped in one process: nothing that was opened outlives them, however the start ended.
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { temporaryFolder } from '../test/world/ending.ts'
import { freshDatabase } from '../test/world/postgres.ts'
import { silentLog } from './base/log.ts'
import { makeMetrics } from './base/metrics.ts'
import { makeVault } from './base/secret.ts'
import { readSettings } from './config.ts'
import { startRoles } from './node.ts'
import type { RoleTools } from './roles/role.ts'
import { openDatabase } from './store/database.ts'

const database = await freshDatabase()
const db = openDatabase(database.connection, { name: 'onlooker', connectionsMax: 1, answerMs: 5_000 })
afterAll(async () => {
  await db.close()
  await database.drop()
})

const tools = (port: number, more: NodeJS.ProcessEnv = {}): Omit<RoleTools, 'patience' | 'deliveryState'> => ({
  settings: readSettings({ POSTHORN_HTTP_PORT: String(port), POSTHORN_HOSTNAME: 'node.test', ...more }),
  connection: database.connection,
  vault: makeVault('a key for the tests of roles'),
  log: silentLog,
  metrics: makeMetrics('main'),
})
/** Sessions of ours that PostgreSQL still knows, once those that said goodbye are gone. */
async function sessionsBecome(isSo: (names: readonly string[]) => boolean): Promise<void> {
  for (;;) {
    const rows = await db.run<{ name: string }>(
      `select application_name as name from pg_stat_activity where datname = current_database() and application_name like 'posthorn%'`,
    )
    if (isSo(rows.map(({ name }) => name))) return
  }
}

test('both roles open what they need, and a stop closes all of it', async () => {
  const running = await startRoles(['api', 'deliver'], tools(0))
  await sessionsBecome((names) =>
    ['posthorn posthorn_access', 'posthorn posthorn_due', 'posthorn deliver'].every((name) => names.includes(name)),
  )
  await running.stop()
  await sessionsBecome((names) => names.length === 0)
  expect(await running.stop().catch((error: unknown) => error)).toBeUndefined()
})

test('a start that fails at the last service closes what the ones before it had opened', async () => {
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  const { port } = busy.address() as AddressInfo
  await expect(startRoles(['deliver', 'api'], tools(port))).rejects.toMatchObject({
    cause: { code: 'EADDRINUSE', port },
  })
  await sessionsBecome((names) => names.length === 0)
  busy.close()
})

test('where one role cannot be made, what was opened for it and for the others is closed', async () => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'smtp-tls.pem'), 'half of a certificate')
  const roles = startRoles(['api', 'deliver', 'smtp'], tools(0, { POSTHORN_DATA_DIR: folder }))
  await expect(roles).rejects.toThrow('smtp-tls.pem is damaged')
  // Whatever would have stayed has its connection by the time that another start has come and gone, which takes the same seat.
  const running = await startRoles(['deliver'], tools(0, { POSTHORN_DATA_DIR: folder }))
  await running.stop()
  expect(readdirSync(join(folder, 'delivery'))).toEqual(['1', '1.lock'])
  await sessionsBecome((names) => names.length === 0)
})

test('the roles that take mail run without the others, and a stop closes all that they opened', async () => {
  const running = await startRoles(['smtp', 'feedback'], tools(0))
  await running.stop()
  await sessionsBecome((names) => names.length === 0)
})
