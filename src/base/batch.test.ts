import * as fc from 'fast-check'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Batch, BatchFull, type BatchLimits } from './batch.ts'

const roomy = { rowsMax: 1_000, bytesMax: 1e9, waitingMax: 1e6 }
const never = (): boolean => false

/** A statement that waits until it is let go, and remembers what it was given. */
function gate() {
  const batches: (readonly number[])[] = []
  const waiting: (() => void)[] = []
  const arrivals: (() => void)[] = []
  /** Resolves when a statement is in flight. */
  const inFlight = (): Promise<void> =>
    waiting.length > 0 ? Promise.resolve() : new Promise((tell) => arrivals.push(tell))
  const letGo = (): void => waiting.splice(0).forEach((go) => go())
  return {
    batches,
    run: (rows: readonly number[]): Promise<number[]> => {
      batches.push(rows)
      arrivals.splice(0).forEach((tell) => tell())
      return new Promise((resolve) => waiting.push(() => resolve(rows.map((row) => row * 10))))
    },
    inFlight,
    letGo,
    letGoUntil: async (done: Promise<unknown>): Promise<void> => {
      const ended = done.then(() => false)
      while (await Promise.race([ended, inFlight().then(() => true)])) letGo()
    },
  }
}

test('a row alone goes at once, without waiting for company', async () => {
  const batch = new Batch(async (rows: readonly number[]) => rows.map((row) => row * 10), roomy, never)
  expect(await batch.add(4)).toBe(40)
})

test('what arrives in one turn of the event loop shares a statement, and each caller gets its own answer', async () => {
  const { batches, run, inFlight, letGo } = gate()
  const batch = new Batch(run, roomy, never)
  const answers = Promise.all([1, 2, 3].map((row) => batch.add(row)))
  await inFlight()
  letGo()
  expect(await answers).toEqual([10, 20, 30])
  expect(batches).toEqual([[1, 2, 3]])
})

test('while one statement is in flight, the rest collects for the next, in order of arrival', async () => {
  const { batches, run, inFlight, letGo } = gate()
  const batch = new Batch(run, roomy, never)
  const first = batch.add(1)
  await inFlight()
  const rest = Promise.all([2, 3, 4].map((row) => batch.add(row)))
  letGo()
  await first
  await inFlight()
  letGo()
  expect(await rest).toEqual([20, 30, 40])
  expect(batches).toEqual([[1], [2, 3, 4]])
})

test('no statement exceeds the rows and bytes allowed; a row that is larger than the bytes goes alone', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 1, max: 10 }),
      fc.integer({ min: 1, max: 40 }),
      async (sizes, rowsMax, bytesMax) => {
        const seen: number[][] = []
        const batch = new Batch(
          async (rows: readonly number[]) => {
            seen.push([...rows])
            return rows
          },
          { rowsMax, bytesMax, waitingMax: 1_000 },
          never,
        )
        const answers = await Promise.all(sizes.map((size, index) => batch.add(index, size)))
        expect(answers).toEqual(sizes.map((_, index) => index))
        expect(seen.flat()).toEqual(answers)
        for (const rows of seen) {
          expect(rows.length).toBeLessThanOrEqual(rowsMax)
          const bytes = rows.reduce((sum, row) => sum + (sizes[row] ?? 0), 0)
          expect(rows.length === 1 || bytes <= bytesMax).toBe(true)
        }
      },
    ),
    { numRuns: 50 },
  )
})

test('poisoned rows fail alone: their neighbours are answered, and no row of a failed statement is lost', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }), async (poisoned) => {
      const done: number[] = []
      const batch = new Batch(
        async (rows: readonly number[]) => {
          if (rows.some((row) => poisoned[row] === true)) throw new Error('poison')
          done.push(...rows)
          return rows
        },
        roomy,
        () => true,
      )
      const results = await Promise.allSettled(poisoned.map((_, index) => batch.add(index)))
      expect(results.map((result) => result.status === 'rejected')).toEqual(poisoned)
      expect(done).toEqual(poisoned.flatMap((bad, index) => (bad ? [] : [index])))
    }),
    { numRuns: 50 },
  )
})

test('a failure that may have taken effect goes to every caller, and nothing is tried twice', async () => {
  let statements = 0
  const batch = new Batch(
    async (): Promise<number[]> => {
      statements++
      throw new Error('the connection was lost')
    },
    roomy,
    never,
  )
  const results = await Promise.allSettled([1, 2, 3].map((row) => batch.add(row)))
  expect(results.every((result) => result.status === 'rejected')).toBe(true)
  expect(statements).toBe(1)
})

test('after a failure the next rows are served', async () => {
  let healthy = false
  const batch = new Batch(
    async (rows: readonly number[]) => {
      if (!healthy) throw new Error('down')
      return rows
    },
    roomy,
    never,
  )
  await expect(batch.add(1)).rejects.toThrow('down')
  healthy = true
  expect(await batch.add(2)).toBe(2)
})

test('more than may wait are refused at once, and those who wait are served all the same', async () => {
  const { run, inFlight, letGo } = gate()
  const batch = new Batch(run, { ...roomy, waitingMax: 2 }, never)
  const first = batch.add(1)
  await inFlight()
  const waiting = [batch.add(2), batch.add(3)]
  await expect(batch.add(4)).rejects.toBeInstanceOf(BatchFull)
  letGo()
  await first
  await inFlight()
  letGo()
  expect(await Promise.all(waiting)).toEqual([20, 30])
})

test('where more wait than one statement takes, owners come in by turns, and each gets its own answer', async () => {
  const { batches, run, inFlight, letGo, letGoUntil } = gate()
  const batch = new Batch(run, { ...roomy, rowsMax: 4 }, never)
  const first = batch.add(0)
  await inFlight()
  const add = (owner: string, rows: readonly number[]) => rows.map((row) => batch.add(row, 0, { owner, rows: 1 }))
  const answers = [...add('busy', [1, 2, 3, 4, 5, 6]), ...add('small', [7]), ...add('other', [8, 9])]
  letGo()
  await first
  await letGoUntil(Promise.all(answers))
  expect(batches).toEqual([[0], [1, 7, 8, 2], [3, 9, 4, 5], [6]])
  expect(await Promise.all(answers)).toEqual([10, 20, 30, 40, 50, 60, 70, 80, 90])
})

test('what stands for many rows counts as so many', async () => {
  const { batches, run, letGoUntil } = gate()
  const batch = new Batch(run, { ...roomy, rowsMax: 10 }, never)
  const group = (row: number, rows: number) => batch.add(row, 0, { owner: 'busy', rows })
  await letGoUntil(Promise.all([group(1, 6), group(2, 4), group(3, 1), group(4, 100), group(5, 1)]))
  expect(batches).toEqual([[1, 2], [3], [4], [5]])
})

test('an owner fills half of the line', async () => {
  const { run, inFlight, letGoUntil } = gate()
  const batch = new Batch(run, { ...roomy, waitingMax: 4 }, never)
  const add = (row: number, owner: string) => batch.add(row, 0, { owner, rows: 1 })
  const first = add(1, 'busy')
  await inFlight()
  const waiting = [add(2, 'busy'), add(3, 'busy')]
  await expect(add(4, 'busy')).rejects.toBeInstanceOf(BatchFull)
  const small = add(5, 'small')
  await letGoUntil(Promise.all([first, ...waiting, small]))
  expect(await small).toBe(50)
  await Promise.all([add(6, 'busy'), letGoUntil(batch.quiet())])
})

test('whoever has waited longer than anybody listens is refused and never executed, alone or before others', async () => {
  const now = vi.spyOn(performance, 'now')
  const at = (ms: number) => void now.mockReturnValue(ms)
  onTestFinished(() => now.mockRestore())
  const { batches, run, inFlight, letGo } = gate()
  const batch = new Batch(run, { ...roomy, patienceMs: 100 }, never)
  const served = async (first: number, late: Promise<number>[], next?: number) => {
    const ends = Promise.allSettled(late)
    letGo()
    if (next !== undefined) {
      await inFlight()
      letGo()
    }
    expect((await ends).map((end) => end.status === 'rejected' && end.reason instanceof BatchFull)).toEqual(
      late.map(() => true),
    )
    await batch.quiet()
    expect(batches.splice(0)).toEqual(next === undefined ? [[first]] : [[first], [next]])
  }
  at(0)
  void batch.add(1)
  await inFlight()
  const alone = [batch.add(2), batch.add(3)]
  at(101)
  await served(1, alone)
  void batch.add(4)
  await inFlight()
  const before = [batch.add(5)]
  at(200)
  const inTime = batch.add(6) // 5 has waited for 99 ms yet
  at(202)
  await served(4, before, 6)
  expect(await inTime).toBe(60)
})

test('it is pressed while rows wait behind a statement, and not by the statement alone', async () => {
  const { run, inFlight, letGo } = gate()
  const batch = new Batch(run, roomy, never)
  const first = batch.add(1)
  await inFlight()
  expect(batch.pressed).toBe(false)
  const second = batch.add(2)
  expect(batch.pressed).toBe(true)
  letGo()
  await first
  await inFlight()
  expect(batch.pressed).toBe(false)
  letGo()
  await second
})

test('quiet waits for everything in flight and waiting, and is at once where nothing is', async () => {
  const { run, inFlight, letGo } = gate()
  const batch = new Batch(run, { ...roomy, rowsMax: 1 }, never)
  await batch.quiet()
  const answered: number[] = []
  const rows = [1, 2].map((row) => batch.add(row).then((answer) => answered.push(answer)))
  const quiet = batch.quiet().then(() => [...answered])
  await inFlight()
  letGo()
  await rows[0]
  await inFlight()
  letGo()
  expect(await quiet).toEqual([10, 20])
  await Promise.all(rows)
})

test('while others wait, their statement goes out before the last callers get their answers', async () => {
  const { batches, run, inFlight, letGo } = gate()
  const batch = new Batch(run, roomy, never)
  const sentBeforeTheFirstAnswer = batch.add(1).then(() => batches.length)
  await inFlight()
  const second = batch.add(2)
  letGo()
  expect(await sentBeforeTheFirstAnswer).toBe(2)
  letGo()
  expect(await second).toBe(20)
})

/** Callers who come again with every answer, for as many statements. Resolves with the rows of each statement. */
async function returning(callers: number, statements: number, limits: Partial<BatchLimits>): Promise<number[]> {
  const { batches, run, inFlight, letGo, letGoUntil } = gate()
  const batch = new Batch(run, { ...roomy, ...limits }, never)
  const end = new AbortController()
  const comeAgain = async (row: number) => {
    while (!end.signal.aborted) await batch.add(row)
  }
  const all = Array.from({ length: callers }, (_, row) => comeAgain(row))
  for (let n = 0; n < statements; n++) {
    await inFlight()
    // Whoever has been answered has come again by now, before this statement ends.
    await new Promise((resolve) => setImmediate(resolve))
    letGo()
  }
  end.abort()
  await letGoUntil(Promise.all(all))
  return batches.slice(0, statements).map((rows) => rows.length)
}

test('taking turns, callers who come again divide into halves: one is answered while the other is in flight', async () => {
  expect((await returning(50, 40, {})).slice(-2)).toEqual([50, 50])
  expect((await returning(50, 40, { takingTurns: true })).slice(-2)).toEqual([25, 25])
  expect((await returning(200, 40, { takingTurns: true })).slice(-2)).toEqual([100, 100])
})

test('taking turns, few callers share one statement, and many still fill it', async () => {
  expect((await returning(16, 10, { takingTurns: true })).slice(-2)).toEqual([16, 16])
  expect((await returning(90, 10, { takingTurns: true, rowsMax: 30 })).slice(-2)).toEqual([30, 30])
})

test('taking turns, a crowd is remembered when fewer come for a moment, and forgotten in time', async () => {
  const { batches, run, letGoUntil } = gate()
  const batch = new Batch(run, { ...roomy, takingTurns: true }, never)
  const together = async (callers: number) => {
    await letGoUntil(Promise.all(Array.from({ length: callers }, (_, row) => batch.add(row))))
  }
  await together(400)
  await together(1)
  await together(150)
  expect(batches.splice(0).map((rows) => rows.length)).toEqual([200, 200, 1, 150])
  for (let n = 0; n < 120; n++) await together(1)
  batches.length = 0
  await together(150)
  expect(batches.map((rows) => rows.length)).toEqual([75, 75])
})

test('with spacing, a statement waits for company after the last one; after a pause a row goes at once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const batches: (readonly number[])[] = []
    const run = (rows: readonly number[]) => Promise.resolve(void batches.push(rows)).then(() => rows)
    const batch = new Batch(run, { ...roomy, spacingMs: 10 }, never)
    await batch.add(1)
    const close = [batch.add(2), batch.add(3)]
    await new Promise((resolve) => setImmediate(resolve))
    vi.advanceTimersByTime(9)
    await new Promise((resolve) => setImmediate(resolve))
    expect(batches).toEqual([[1]])
    vi.advanceTimersByTime(1)
    await Promise.all(close)
    vi.advanceTimersByTime(10)
    await batch.add(4)
    expect(batches).toEqual([[1], [2, 3], [4]])
  } finally {
    vi.useRealTimers()
  }
})

test('while the loop is busy, few of many callers wait for company, until they are enough or their time has come', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const sizes: number[] = []
    const run = (rows: readonly number[]) => Promise.resolve(void sizes.push(rows.length)).then(() => rows)
    let busy = true
    const batch = new Batch(run, { ...roomy, whenBusy: { isBusy: () => busy, spacingMs: 10 } }, never)
    const add = (many: number) => Promise.all(Array.from({ length: many }, (_, n) => batch.add(n)))
    const passes = async (ms: number) => {
      vi.advanceTimersByTime(ms)
      await new Promise((resolve) => setImmediate(resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await add(20)
    const few = add(3)
    await passes(9)
    const more = add(2)
    await passes(0)
    expect(sizes).toEqual([20])
    await passes(1)
    await Promise.all([few, more])
    const first = add(10)
    await passes(1)
    expect(sizes).toEqual([20, 5])
    await Promise.all([first, add(6)])
    busy = false
    await add(2)
    expect(sizes).toEqual([20, 5, 16, 2])
  } finally {
    vi.useRealTimers()
  }
})

test('while the loop is busy, callers who are few, and all there, wait for nobody', async () => {
  const sizes: number[] = []
  const run = (rows: readonly number[]) => Promise.resolve(void sizes.push(rows.length)).then(() => rows)
  const batch = new Batch(run, { ...roomy, whenBusy: { isBusy: () => true, spacingMs: 1e9 } }, never)
  for (let n = 0; n < 3; n++) await Promise.all([1, 2, 3].map((row) => batch.add(row)))
  expect(sizes).toEqual([3, 3, 3])
})

test('where many come, the spacing grows with the rows of the last statement, up to its most', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const sizes: number[] = []
    const run = (rows: readonly number[]) => Promise.resolve(void sizes.push(rows.length)).then(() => rows)
    const batch = new Batch(run, { ...roomy, rowsMax: 100, spacingMs: 2, spacingMostMs: 5 }, never)
    const passes = async (ms: number) => {
      vi.advanceTimersByTime(ms)
      await new Promise((resolve) => setImmediate(resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
    const add = (many: number) => Promise.all(Array.from({ length: many }, (_, n) => batch.add(n)))
    await add(4)
    const four = add(30)
    await passes(3)
    expect(sizes).toEqual([4])
    await passes(1)
    await four
    const most = add(1)
    await passes(4)
    expect(sizes).toEqual([4, 30])
    await passes(1)
    await most
    const least = add(1)
    await passes(1)
    expect(sizes).toEqual([4, 30, 1])
    await passes(1)
    await least
    expect(sizes).toEqual([4, 30, 1, 1])
  } finally {
    vi.useRealTimers()
  }
})
