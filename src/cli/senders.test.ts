// What operators are refused is what callers of the API are refused, in one sentence.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import { around, run } from './command.test-kit.ts'

let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase()
  expect(await posthorn('workspace', 'create', '--name', 'Shop', '--plan', 'free')).toMatchObject({ status: 0 })
})
afterAll(() => database.drop())

const posthorn = (...args: readonly string[]) => run(around(database.connection), args)

test.each([
  [
    'a key that has expired already',
    ['key', 'create', 'Shop', '--name', 'k', '--scope', 'mail.send', '--expires', '2020-01-01T00:00:00Z'],
    'A key must expire in the future.',
  ],
  [
    'a domain of the simulator',
    ['domain', 'add', 'Shop', 'a.simulator.posthorn.test', '--verified'],
    'a.simulator.posthorn.test is reserved',
  ],
  [
    'a mailbox for all addresses of a domain',
    ['mailbox', 'add', 'Shop', '*@shop.example'],
    'A mailbox is one address: "*@shop.example" would stand for',
  ],
])('%s is not made', async (_name, args, words) => {
  const { status, out, err } = await posthorn(...args)
  expect([status, out]).toEqual([1, ''])
  expect(err).toContain(words)
})

test('whoever adds a mailbox on a domain that does not send yet is told so, and how it will', async () => {
  await posthorn('domain', 'add', 'Shop', 'waits.example')
  await posthorn('domain', 'add', 'Shop', 'sends.example', '--verified')
  const { status, out } = await posthorn('mailbox', 'add', 'Shop', 'a@waits.example')
  expect(status).toBe(0)
  expect(out).toMatch(
    /waits\.example is pending, so mail from this address is refused until .*\n {2}posthorn domain list Shop\n {2}posthorn domain check Shop waits\.example\n$/,
  )
  expect((await posthorn('mailbox', 'add', 'Shop', 'a@sends.example')).out).not.toContain('refused')
}, 180_000)
