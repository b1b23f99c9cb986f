// Renews the files that are made from the code and compared with it by tests (npm run golden): openapi.json, docs/config.md and
// src/store/schema.sql. The last comes from a database of its own that all migrations ran in. Read the diff as if it were code.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { silentLog } from '../src/base/log.ts'
import { settingsPage } from '../src/config-page.ts'
import { openapiJson } from '../src/contract/openapi.ts'
import { embeddedPostgres } from '../src/embedded/embedded.ts'
import { migrate } from '../src/store/migrate.ts'
import { schemaDump } from './schema-dump.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

async function migratedSchema(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-golden-'))
  chmodSync(folder, 0o711) // as root, PostgreSQL runs as another user and must reach its cluster
  const memoryBytes = 512 * 1024 * 1024
  const postgres = embeddedPostgres({ dataDir: join(folder, 'data'), log: silentLog, purpose: 'serve', memoryBytes })
  try {
    const { connection } = await postgres.start()
    await migrate(connection)
    return await schemaDump(connection)
  } finally {
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

function renew(path: string, text: string): void {
  const file = join(root, path)
  let before: string | undefined
  try {
    before = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  if (before !== text) writeFileSync(file, text)
  console.log(`${path}: ${before === text ? 'unchanged' : 'renewed'}`)
}

renew('openapi.json', openapiJson())
renew('docs/config.md', settingsPage())
renew('src/store/schema.sql', await migratedSchema())
