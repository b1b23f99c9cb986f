// Old guesses are forgotten a page at a time, and none that is made meanwhile.
import { expect, test } from 'vitest'
import { addGuess, countGuesses, pruneGuesses } from './sign-in-guesses.ts'
import { storeWorld } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'

const world = await storeWorld()
const ms = 3_600_000
const old = (name: string) =>
  world.db.run(
    `insert into sign_in_guesses (name, count, at) values (convert_to($1, 'UTF8'), 1, app_now() - interval '30 days')`,
    [name],
  )

test('a guess that is made while its old count is forgotten counts', async () => {
  await old('ann')
  const name = Buffer.from('ann')
  const guesser = await world.holding(`update sign_in_guesses set count = 1, at = app_now() where name = $1`, [name])
  const pruned = pruneGuesses(world.db)
  await world.untilSomebodyWaits()
  await guesser.query('commit')
  await pruned
  expect(await countGuesses(world.db, name, ms)).toBeGreaterThan(0.9)
})

test('all are looked at once, so many at a time, and those that count stay', async () => {
  await world.db.run('delete from sign_in_guesses')
  for (let n = 0; n < 20; n++) {
    await addGuess(world.db, Buffer.from(`b${n}`), ms)
    await old(`c${n}`)
  }
  let looks = 0
  await pruneGuesses(watched(world.db, { asked: () => void looks++ }), 10)
  expect(
    await world.value(`select string_agg(distinct convert_from(substr(name, 1, 1), 'UTF8'), '') from sign_in_guesses`),
  ).toBe('b')
  expect(await world.value('select count(*)::integer from sign_in_guesses')).toBe(20)
  expect(looks).toBe(5)
})
