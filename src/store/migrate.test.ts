import { expect, test } from 'vitest'
import { storeWorld } from './store.test-kit.ts'
import { migrate } from './migrate.ts'

test.each([
  ['nobody listens', 'postgres://a:b@127.0.0.1:1/x', /ECONNREFUSED/],
  ['its name is unknown', 'postgres://a:b@nohost.invalid/x', /ENOTFOUND|EAI_AGAIN/],
])('where %s, the database is away, and the setting that names it is told', async (_, url, code) => {
  const error = await migrate({ url }).catch((error: unknown) => error as Error)
  expect(error).toMatchObject({
    name: 'Trouble',
    message: expect.stringMatching(
      /: the database cannot be reached; look at DATABASE_URL \(docs\/config.md\)$/,
    ) as string,
    cause: { message: expect.stringMatching(code) as string },
  })
})

test('a database that a newer release has migrated is refused in one sentence, and left as it is', async () => {
  const world = await storeWorld()
  await world.db.run(`insert into kysely_migration (name, timestamp) values ('9999-of-tomorrow', '2027-01-01')`)
  await expect(migrate(world.connection)).rejects.toMatchObject({
    name: 'Trouble',
    message: expect.stringMatching(
      /^the database belongs to a newer release: it has the schema 9999-of-tomorrow, and this one ends with \d{4}-/,
    ) as string,
  })
  await world.close()
})
