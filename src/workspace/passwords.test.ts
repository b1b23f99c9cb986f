// Hashing takes a core for a moment: whoever guesses gets no more of it than a share, and who signs in meanwhile finds a place.
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makePasswords, type Asker } from './passwords.ts'

const stranger = (name: string): Asker => ({ name, isKnown: false })

test('however many addresses strangers come from, whom we know finds a place, and before them', async () => {
  const passwords = makePasswords()
  const { passwordHashesMax, passwordHashesWaitingMax } = limits
  const many = passwordHashesMax + passwordHashesWaitingMax
  const ended: string[] = []
  const guess = (asker: Asker) =>
    passwords.fits('a guess', undefined, asker).then(() => void ended.push(asker.isKnown ? 'known' : 'stranger'))
  const flood = Array.from({ length: many + 1 }, (_, n) => guess(stranger(`192.0.2.${n}`)))
  const outcomes = Promise.allSettled(flood)
  await expect(flood.at(-1)).rejects.toMatchObject({ refusal: { code: 'service_unavailable' } })
  await guess({ name: 'ada', isKnown: true })
  // Behind those who were at it, and beside whoever is quicker; before most of those who came earlier.
  expect(ended.length).toBeLessThan(many / 2)
  await outcomes
})

test('of one asker only a few wait, the next is told to come again, and the others find a place', async () => {
  const passwords = makePasswords()
  const most = limits.passwordHashesMax + limits.passwordHashesOfAskerMax
  const flood = Array.from({ length: most + 1 }, () => passwords.fits('a guess', undefined, stranger('flood')))
  const outcomes = Promise.allSettled(flood)
  const other = passwords.fits('a guess', undefined, stranger('somebody else'))
  await expect(flood.at(-1)).rejects.toMatchObject({ refusal: { code: 'service_unavailable' } })
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

test('a password is as long as it has characters: an emoji is one', async () => {
  const passwords = makePasswords()
  const hash = (password: string) => passwords.hash(password, 'ada@example.com').catch(String)
  expect(await hash('🦡🐌🐝🦔🐢')).toContain('must have at least 10 characters')
  const long = '🦡🐌🐝🦔'.repeat(limits.passwordCharactersMax / 4)
  expect(await passwords.fits(long, await hash(long))).toBe(true)
  expect(await hash(`${long}🐢`)).toContain('must have at most 200 characters')
})
