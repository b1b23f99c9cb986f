// The questions to authenticators: each good for one answer, and never more of them than there is room for.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keepChallenge, takeChallenge } from './passkeys.ts'
import type { Db } from './database.ts'
import { storeWorld, type StoreWorld } from './store.test-kit.ts'

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
afterAll(() => world.close())

const idOf = (at: number) => `0199a000-0000-7000-8000-00000000000${at}`
const ask = (at: number, ms: number) =>
  keepChallenge(world.db, { id: idOf(at), challenge: `question ${at}`, user: null }, ms, 3)
const open = () => world.db.run('select challenge from passkey_challenges order by id')

test('whoever asks without end only makes the oldest questions go, and each is answered once', async () => {
  for (const at of [1, 2, 3, 4, 5]) await ask(at, 60_000)
  expect(await open()).toEqual([3, 4, 5].map((at) => ({ challenge: `question ${at}` })))
  expect(await takeChallenge(world.db, idOf(4))).toMatchObject({ challenge: 'question 4' })
  expect(await takeChallenge(world.db, idOf(4))).toBeUndefined()
})

test('what has expired makes room first', async () => {
  await world.db.run('delete from passkey_challenges')
  await ask(6, -1)
  expect(await takeChallenge(world.db, idOf(6))).toBeUndefined()
  for (const at of [7, 8, 9]) await ask(at, 60_000)
  expect(await open()).toHaveLength(3)
})

test('a question alone walks along no others: that is done for many of them together', async () => {
  const asked: string[] = []
  const watched: Db = {
    ...world.db,
    rows: (statement, values) => {
      asked.push(statement.name)
      return world.db.rows(statement, values)
    },
  }
  for (let n = 0; n < 40; n++)
    await keepChallenge(watched, { id: world.nextId(), challenge: 'x', user: null }, 60_000, 2_000)
  expect(asked.filter((name) => name === 'ask-passkey')).toHaveLength(40)
  expect(asked.filter((name) => name === 'prune-passkey-challenges')).toHaveLength(2)
  expect(asked).toHaveLength(42)
})
