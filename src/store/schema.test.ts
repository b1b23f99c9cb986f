import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { freshDatabase } from '../../test/world/postgres.ts'
import { schemaDump } from '../../tools/schema-dump.ts'

test('schema.sql is what the migrations make; `npm run golden` renews it', async () => {
  const database = await freshDatabase()
  try {
    const committed = await readFile(new URL('schema.sql', import.meta.url), 'utf8')
    expect(await schemaDump(database.connection)).toBe(committed)
  } finally {
    await database.drop()
  }
})
