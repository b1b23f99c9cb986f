// Hashing takes a core for a moment: whoever guesses gets no more of it than a share, and who signs in meanwhile finds a place.
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makePasswords } from './passwords.ts'

test('of one asker only a few wait, the next is told to come again, and the others find a place', async () => {
  const passwords = makePasswords()
  const most = limits.passwordHashesMax + limits.passwordHashesOfAskerMax
  const flood = Array.from({ length: most + 1 }, () => passwords.fits('a guess', undefined, 'flood'))
  const outcomes = Promise.allSettled(flood)
  const other = passwords.fits('a guess', undefined, 'somebody else')
  await expect(flood.at(-1)).rejects.toMatchObject({ code: 'service_unavailable' })
  expect(await other).toBe(false)
  expect((await outcomes).filter(({ status }) => status === 'fulfilled')).toHaveLength(most)
})

test('who has one password has no other, and no password fits where there is none', async () => {
  const passwords = makePasswords()
  const stored = await passwords.hash('caf\u00e9 under the bridge', 'ada@example.com')
  // The same letters in another form (NFD), as another keyboard sends them.
  expect(await passwords.fits('cafe\u0301 under the bridge', stored)).toBe(true)
  expect([await passwords.fits('cafe under the bridge', stored), await passwords.fits('', null)]).toEqual([
    false,
    false,
  ])
})
