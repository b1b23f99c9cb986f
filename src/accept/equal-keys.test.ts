// Requests with the same key wait for each other here, and none longer than is said.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { refuse } from '../domain/refusal.ts'
import { equalKeysInTurn } from './equal-keys.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const refused = refuse('recipient_suppressed', 'No.')
const nothing = () => Promise.resolve(undefined)

test('a loser waits as long as is said and no longer, however many others had their turn meanwhile', async () => {
  const inTurn = equalKeysInTurn<string>()
  const turns: PromiseWithResolvers<string | typeof refused>[] = []
  const decide = () => {
    const turn = Promise.withResolvers<string | typeof refused>()
    turns.push(turn)
    return turn.promise
  }
  const answers = [1, 2, 3].map(() => inTurn('key', decide, nothing))
  expect(turns).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(limits.idempotencyWaitMs - 1_000)
  turns[0]?.resolve(refused) // it leaves nothing: one of the others is next
  expect(await answers[0]).toBe(refused)
  await vi.advanceTimersByTimeAsync(999)
  expect(turns).toHaveLength(2)
  let told = false
  const last = answers[2]?.then((answer) => ((told = true), answer))
  await vi.advanceTimersByTimeAsync(0)
  expect(told).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(told).toBe(true)
  expect(await last).toMatchObject({ code: 'idempotency_in_progress', retryAfterSeconds: 1 })
  turns[1]?.resolve('accepted')
  expect(await answers[1]).toBe('accepted')
  // Nothing is held any more, and no clock runs.
  const again = inTurn('key', decide, nothing)
  expect(turns).toHaveLength(3)
  turns[2]?.reject(new Error('away'))
  await expect(again).rejects.toThrow('away')
  expect(vi.getTimerCount()).toBe(0)
})

test('where the winner fails, the losers have their turns one after the other; other keys wait for nobody', async () => {
  const inTurn = equalKeysInTurn<string>()
  const first = Promise.withResolvers<string>()
  let under = 0
  let most = 0
  const decide = async () => {
    most = Math.max(most, ++under)
    await Promise.resolve()
    under--
    return refused
  }
  const winner = inTurn('key', () => first.promise, nothing)
  const losers = [1, 2, 3, 4].map(() => inTurn('key', decide, nothing))
  expect(await inTurn('another', () => Promise.resolve('accepted'), nothing)).toBe('accepted')
  first.reject(new Error('away'))
  await expect(winner).rejects.toThrow('away')
  expect(await Promise.all(losers)).toEqual([refused, refused, refused, refused])
  expect(most).toBe(1)
})

test('where the winner was accepted, the losers find what it left, all at once', async () => {
  const inTurn = equalKeysInTurn<string>()
  const first = Promise.withResolvers<string>()
  const found = Promise.withResolvers<string>()
  let looking = 0
  const winner = inTurn('key', () => first.promise, nothing)
  const losers = [1, 2, 3].map(() => inTurn('key', () => (looking++, found.promise), nothing))
  first.resolve('accepted')
  await winner
  await vi.advanceTimersByTimeAsync(0)
  expect(looking).toBe(3)
  expect(vi.getTimerCount()).toBe(0)
  found.resolve('found')
  expect(await Promise.all(losers)).toEqual(['found', 'found', 'found'])
})

test.each([
  ['finds what the winner has left', () => Promise.resolve('found'), 0, 'found'],
  ['hears no where it is for another body', () => Promise.resolve(refused), 0, refused],
  ['finds nothing', nothing, 0, { code: 'idempotency_in_progress' }],
  ['cannot look', () => Promise.reject(new Error('away')), 0, { code: 'idempotency_in_progress' }],
  [
    'looks for too long',
    () => new Promise<never>(() => undefined),
    limits.rereadMs,
    { code: 'idempotency_in_progress' },
  ],
])('who has waited for as long as is said looks once more, for a bounded time: %s', async (_, look, ms, answer) => {
  const inTurn = equalKeysInTurn<string>()
  const never = () => new Promise<never>(() => undefined)
  let looks = 0
  void inTurn('key', never, nothing)
  const loser = inTurn('key', never, () => (looks++, look()))
  await vi.advanceTimersByTimeAsync(limits.idempotencyWaitMs - 1)
  expect(looks).toBe(0)
  await vi.advanceTimersByTimeAsync(1 + ms)
  expect(looks).toBe(1)
  const told = await loser
  if (typeof answer === 'string') expect(told).toBe(answer)
  else expect(told).toMatchObject(answer)
  expect(vi.getTimerCount()).toBe(0)
})
