import { expect, test } from 'vitest'
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
