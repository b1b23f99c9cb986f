// Answers to questions that were put to authenticators: each is noted once, and forgotten when its question is long closed.
import { expect, test } from 'vitest'
import { noteAnswer } from './passkeys.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()

test('of two that bring the same answer at once, on two nodes, one is the first; and what is long closed is forgotten', async () => {
  const user = world.nextId()
  await world.db.run(
    `insert into users (id, email, email_key, password_hash) values ($1, 'a@people.example', 'a@people.example', '')`,
    [user],
  )
  const question = world.nextId()
  const note = (db = world.db, ms = 60_000) => noteAnswer(db, question, user, ms)
  expect((await Promise.all([note(), note(world.anotherNode())])).toSorted()).toEqual([false, true])
  expect(await note()).toBe(false)
  // A release that kept open questions in this table finds none to answer.
  expect(await world.db.run('select challenge from passkey_challenges')).toEqual([{ challenge: '' }])
  await world.setClock(new Date(Date.now() + 61_000).toISOString())
  await noteAnswer(world.db, world.nextId(), user, 60_000)
  expect(await world.value<number>('select count(*)::integer from passkey_challenges')).toBe(1)
})
