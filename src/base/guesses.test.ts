// Who guesses is slowed down, and nobody else.
import { expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { Guesses } from './guesses.ts'

const clock = () => {
  let now = 0
  return { now: () => now, pass: (ms: number) => void (now += ms) }
}
const repeated = (guesses: Guesses, address: string, times: number) =>
  Array.from({ length: times }, () => guesses.failed(address))

test('the first failures are free, the next ones wait longer and longer, up to a bound', () => {
  const delays = repeated(new Guesses(clock().now), '192.0.2.1', 40)
  expect(delays.slice(0, limits.guessesFree)).toEqual(Array.from({ length: limits.guessesFree }, () => 0))
  const slow = delays.slice(limits.guessesFree)
  expect(slow[0]).toBeGreaterThan(0)
  expect(slow).toEqual(slow.toSorted((one, other) => one - other))
  expect(slow.at(-1)).toBe(limits.guessDelayMsMax)
})

test('nobody else is slowed: other addresses have their own count, an IPv6 customer one', () => {
  const guesses = new Guesses(clock().now)
  repeated(guesses, '192.0.2.1', 50)
  expect(guesses.failed('192.0.2.2')).toBe(0)
  expect(guesses.failed('::ffff:192.0.2.1')).toBe(limits.guessDelayMsMax)
  repeated(guesses, '2001:db8:1:2::1', 50)
  expect(guesses.failed('2001:0DB8:1:2:aaaa:bbbb:cccc:dddd')).toBe(limits.guessDelayMsMax)
  expect(guesses.failed('2001:db8:1:3::1')).toBe(0)
})

const atOnce = (wait: Promise<void>) =>
  Promise.race([wait.then(() => true), new Promise((resolve) => setImmediate(resolve, false))])

test('who guesses one username from many addresses waits like who guesses from one', async () => {
  const guesses = new Guesses(clock().now)
  repeated(guesses, 'user ada', limits.guessesFree)
  const slowed = guesses.slow('192.0.2.1', 'user ada')
  expect([await atOnce(slowed), await atOnce(guesses.slow('192.0.2.1', 'user bob'))]).toEqual([false, true])
  await slowed
})

test('so many refusals are held back at the same time and no more, again and again', async () => {
  const guesses = new Guesses(clock().now)
  const users = Array.from({ length: limits.guessesDelayedMax }, (_, n) => `user ${n}`)
  for (const user of users) repeated(guesses, user, limits.guessesFree)
  const held = users.map((user) => guesses.slow(user))
  expect(await atOnce(guesses.slow('user 0'))).toBe(true)
  await Promise.all(held)
  const again = guesses.slow('user 1')
  expect(await atOnce(again)).toBe(false)
  await again
})

test('failures are forgotten by and by', () => {
  const time = clock()
  const guesses = new Guesses(time.now)
  repeated(guesses, '192.0.2.1', 50)
  time.pass(limits.guessForgottenMs * 4)
  expect(guesses.failed('192.0.2.1')).toBe(0)
})

test('a clock that is set back is no guess', () => {
  const date = vi.spyOn(Date, 'now').mockReturnValue(2 * 86_400_000)
  const guesses = new Guesses()
  guesses.failed('192.0.2.1')
  date.mockReturnValue(86_400_000)
  const waitMs = guesses.failed('192.0.2.1')
  date.mockRestore()
  expect(waitMs).toBe(0)
})

test('many guessers take bounded memory, and the latest are remembered', () => {
  const guesses = new Guesses(clock().now)
  repeated(guesses, '192.0.2.1', 50)
  for (let each = 0; each < limits.guessersMax - 1; each++)
    guesses.failed(`10.${each >> 16}.${(each >> 8) & 255}.${each & 255}`)
  expect(guesses.failed('192.0.2.1')).toBe(limits.guessDelayMsMax)
  repeated(guesses, '192.0.2.3', 50)
  for (let each = 0; each < limits.guessersMax; each++)
    guesses.failed(`10.${each >> 16}.${(each >> 8) & 255}.${each & 255}`)
  expect(guesses.failed('192.0.2.3')).toBe(0)
})
