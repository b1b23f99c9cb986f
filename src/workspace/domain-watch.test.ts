import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import { domainWatch } from './domain-watch.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('where very many domains are due, a look goes on with the next ones: a new domain does not wait for an hour behind them', async () => {
  const most = limits.domainChecksPerRound
  let due = 20 * most
  let rounds = 0
  const watch = domainWatch(
    {
      checkDue: () => {
        rounds++
        const taken = Math.min(due, most)
        due -= taken
        return Promise.resolve(taken)
      },
    },
    silentLog,
  )
  await watch.start()
  await vi.advanceTimersByTimeAsync(limits.domainLookMs)
  expect(rounds).toBe(1)
  await vi.advanceTimersByTimeAsync(25 * limits.domainLookOnMs)
  expect([due, rounds]).toEqual([0, 21])
  await vi.advanceTimersByTimeAsync(limits.domainLookMs - 6 * limits.domainLookOnMs)
  expect(rounds).toBe(21)
  await watch.stop()
})

test('a look that fails is not the beginning of a rush', async () => {
  let rounds = 0
  const watch = domainWatch(
    {
      checkDue: () =>
        ++rounds === 1
          ? Promise.resolve(limits.domainChecksPerRound)
          : Promise.reject(new Error('the database is away')),
    },
    silentLog,
  )
  await watch.start()
  await vi.advanceTimersByTimeAsync(limits.domainLookMs + limits.domainLookOnMs)
  expect(rounds).toBe(2)
  await vi.advanceTimersByTimeAsync(limits.domainLookMs - 1)
  expect(rounds).toBe(2)
  await watch.stop()
})
