// A queue is walked as long as anything in it may be due: nothing that came while a walk was under way is left lying until the next rest is over.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { makeClaimLoop, type ClaimLoop, type ClaimTools, type WalkPart } from './claim-loop.ts'

const first = 'first'
const now = new Date('2026-11-27T12:00:00Z')
const longAgo = new Date(now.getTime() - 3_600_000)
const restMs = 10_000

/** What a claim was asked, and how it is answered. */
interface Asked {
  readonly cursor: string
  readonly since: Date | undefined
  answer(part?: Partial<WalkPart>): Promise<void>
  fail(): Promise<void>
}

let asked: Asked[] = []
let launched: number[] = []
let troubles: unknown[] = []
let waitMs = 0
let loop: ClaimLoop

/** All that follows without a timer. */
const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0)
const passing = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

function loopOf(changes: Partial<ClaimTools<WalkPart>> = {}): ClaimLoop {
  return makeClaimLoop<WalkPart>({
    first,
    least: 3,
    restMs: () => restMs,
    waitMs: () => waitMs,
    claim: (cursor, since) =>
      new Promise((resolve, reject) => {
        asked.push({
          cursor,
          since,
          answer: async (part) => {
            resolve({ claimed: [], cursor: first, oldest: null, now, ...part })
            await settled()
          },
          fail: async () => {
            reject(new Error('the database is away'))
            await settled()
          },
        })
      }),
    launch: ({ claimed }) => {
      launched.push(claimed.length)
      return claimed.length > 0
    },
    trouble: (error) => void troubles.push(error),
    ...changes,
  })
}
const last = (): Asked => asked.at(-1) as Asked
const many = [1, 2, 3]

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  asked = []
  launched = []
  troubles = []
  waitMs = 0
  loop = loopOf()
  loop.start()
})
afterEach(async () => {
  const stopped = loop.stop()
  await last().answer()
  await passing(1_000)
  await stopped
  vi.useRealTimers()
})

test('behind a whole walk that has found nothing it rests, until it is poked', async () => {
  await last().answer()
  await passing(restMs - 1)
  expect(asked).toHaveLength(1)
  await passing(1)
  expect(asked).toHaveLength(2)
  await last().answer()
  loop.poke()
  await settled()
  expect(asked).toHaveLength(3)
})

test('what comes while a walk is under way may lie where it has been already: no rest is taken behind that', async () => {
  await last().answer({ cursor: 'half' })
  loop.poke()
  await last().answer()
  await passing(1_000)
  expect(asked.map(({ cursor }) => cursor)).toEqual([first, 'half', first])
  // It has seen all that there was: now there is a rest.
  await last().answer()
  await passing(restMs - 1)
  expect(asked).toHaveLength(3)
})

test('behind a walk that has found some, be it in one of its parts, comes another', async () => {
  await last().answer({ claimed: [1], cursor: 'half' })
  await last().answer()
  await passing(1_000)
  expect(asked.map(({ cursor }) => cursor)).toEqual([first, 'half', first])
  await last().answer()
  await passing(1_000)
  expect(asked).toHaveLength(3)
})

test('a part that is full is followed at once, and one that ends a walk by its beginning', async () => {
  await last().answer({ claimed: many, cursor: 'half' })
  await passing(100)
  await last().answer({ claimed: many })
  expect(asked.map(({ cursor }) => cursor)).toEqual([first, 'half', first])
  expect(launched).toEqual([3, 3])
})

test('behind a trouble, which is told, it waits a moment and walks from the beginning', async () => {
  await last().answer({ claimed: many, cursor: 'half' })
  await last().fail()
  expect(troubles).toMatchObject([{ message: 'the database is away' }])
  await passing(499)
  expect(asked).toHaveLength(2)
  await passing(1)
  expect(asked.map(({ cursor }) => cursor)).toEqual([first, 'half', first])
})

test('where nothing may be claimed it looks again after a second at the latest, poked or not', async () => {
  waitMs = 60_000
  await last().answer({ claimed: many })
  await passing(999)
  waitMs = 0
  expect(asked).toHaveLength(1)
  await passing(1)
  expect(asked).toHaveLength(2)
  waitMs = Infinity
  await last().answer({ claimed: many })
  waitMs = 0
  loop.poke()
  await settled()
  expect(asked).toHaveLength(3)
})

test('a stop ends when the claim under way has launched what it brought, and wakes a rest; another start walks from the beginning', async () => {
  await last().answer({ claimed: many, cursor: 'half' })
  let isStopped = false
  let stopped = loop.stop().then(() => (isStopped = true))
  await settled()
  expect(isStopped).toBe(false)
  await last().answer({ claimed: [1, 2], cursor: 'later' })
  await passing(1_000)
  await stopped
  expect([launched, asked.length]).toEqual([[3, 2], 2])
  loop.start()
  expect(last().cursor).toBe(first)
  await last().answer()
  stopped = loop.stop().then(() => true)
  await settled()
  expect(await stopped).toBe(true)
  loop.start()
})

test('whoever asks when the claim under way is launched hears it then, also of one that failed', async () => {
  const heard: number[] = []
  const hear = () => void loop.launched().then(() => heard.push(launched.length))
  hear()
  await settled()
  expect(heard).toEqual([])
  await last().answer({ claimed: many })
  expect(heard).toEqual([1])
  hear()
  await last().fail()
  expect(heard).toEqual([1, 1])
  await passing(500)
})

test('it passes over what is due since before the last walk, unless something may be due since long ago', async () => {
  await last().answer({ claimed: many, oldest: longAgo })
  expect(last().since).toEqual(longAgo)
  loop.lookAnew()
  await last().answer({ claimed: many })
  expect(last().since).toBeUndefined()
})

test('claims have their least distance', async () => {
  const stopped = loop.stop()
  await last().answer()
  await stopped
  loop = loopOf({ spacingMs: 100 })
  loop.start()
  await passing(30)
  await last().answer({ claimed: many })
  await passing(69)
  expect(asked).toHaveLength(2)
  await passing(1)
  expect(asked).toHaveLength(3)
  await last().answer({ claimed: [1] })
  await passing(99)
  expect(asked).toHaveLength(3)
  await passing(1)
  expect(asked).toHaveLength(4)
})
