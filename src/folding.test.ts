import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLog } from './base/log.ts'
import { folding } from './folding.ts'
import type { Db } from './store/database.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('behind an hour in which the database hangs one round follows, and a stop waits for no other', async () => {
  const waiting: ((rows: never[]) => void)[] = []
  const rows = () => new Promise<never[]>((resolve) => waiting.push(resolve))
  const service = folding({ rows } as unknown as Db, silentLog)
  await service.start()
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect(waiting).toHaveLength(1)
  waiting[0]?.([])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(waiting).toHaveLength(2)
  const stopped = service.stop()
  waiting[1]?.([])
  await stopped
  await vi.advanceTimersByTimeAsync(60_000)
  expect(waiting).toHaveLength(2)
})
