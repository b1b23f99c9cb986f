// The node's own counter on its disk: nothing that was kept is forgotten, whatever a write that was cut off left behind.
import { chownSync, constants, readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { makeMark, openMark, type WriteRecord } from './mark.ts'

test('a new folder knows nothing, and names its node once and for all', async () => {
  const path = temporaryFolder()
  const first = await openMark(path)
  expect([first.known, first.counter]).toEqual([undefined, 0])
  await first.agree({ counter: 0, era: 0 })
  await first.keep(7)
  await first.close()
  const again = await openMark(path)
  expect([again.node, again.known, again.counter]).toMatchObject([first.node, { counter: 7, era: 0 }, 7])
  await again.close()
})

test('many keeps at once are on the disk when they resolve, and never go back', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  await mark.agree({ counter: 0, era: 3 })
  await Promise.all(
    Array.from({ length: 200 }, async (_, n) => {
      await mark.keep(n + 1)
      const other = await openMark(path) // as after a crash in this moment
      expect(other.known?.counter).toBeGreaterThanOrEqual(n + 1)
      await other.close()
    }),
  )
  await mark.keep(5)
  expect(mark.known).toMatchObject({ counter: 200, era: 3 })
  await mark.agree({ counter: 9, era: 2 })
  expect(mark.known).toMatchObject({ counter: 200, era: 3 })
  await mark.agree({ counter: 9, era: 4 })
  expect(mark.known).toMatchObject({ counter: 9, era: 4 })
  await mark.close()
})

test('a counter that is told as kept stands in the file already: the dot behind it may be the last that this node does', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  await mark.agree({ counter: 0, era: 1 })
  for (let counter = 1; counter <= 50; counter++) {
    await mark.keep(counter)
    expect(readFileSync(join(path, 'mark'), 'latin1')).toContain(` 1 ${counter} `)
  }
  await mark.close()
})

// What the kernel alone has reads like what is on the disk, until the power fails.
test.runIf(process.platform === 'linux')('a write is not told as done before it is on the disk', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  const descriptor = readdirSync('/proc/self/fd').find((name) => isOpenAs(name, join(path, 'mark')))
  const [, flags = ''] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')) ?? []
  expect(Number.parseInt(flags, 8) & constants.O_DSYNC).toBe(constants.O_DSYNC)
  await mark.close()
})
const isOpenAs = (descriptor: string, path: string): boolean => {
  try {
    return realpathSync(`/proc/self/fd/${descriptor}`) === realpathSync(path)
  } catch {
    return false // a socket, or closed since
  }
}

test('an operator’s later decision counts for more than a higher counter, also for the next life', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  await mark.agree({ counter: 200, era: 3 })
  await mark.agree({ counter: 9, era: 4 })
  await mark.close()
  const again = await openMark(path)
  expect(again.known).toMatchObject({ counter: 9, era: 4 })
  await again.close()
})

test('a damaged record is not believed, and the next life writes over it or the older one, never over the newest', async () => {
  const path = temporaryFolder()
  const read = () => readFileSync(join(path, 'mark')).toString('latin1')
  const mark = await openMark(path)
  await mark.agree({ counter: 11, era: 0 })
  await mark.keep(12)
  await mark.keep(13) // in the place of the first
  await mark.close()
  const again = await openMark(path)
  await again.keep(14)
  await again.close()
  expect(read()).toMatch(/ 0 13 [^]* 0 14 /)
  writeFileSync(join(path, 'mark'), read().replace(' 0 14 ', ' 0 94 '), 'latin1')
  const last = await openMark(path)
  expect(last.known).toMatchObject({ counter: 13, era: 0 })
  await last.close()
})

test('a record that was cut off leaves the one before it', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  await mark.agree({ counter: 1, era: 0 })
  await mark.keep(2)
  await mark.keep(3)
  await mark.close()
  const bytes = readFileSync(join(path, 'mark'))
  const at = bytes.toString('latin1').indexOf(' 0 3 ')
  bytes.fill(0, at + 3, at + 10)
  writeFileSync(join(path, 'mark'), bytes)
  const again = await openMark(path)
  expect(again.known?.counter).toBe(2)
  // The next write takes the damaged place, not the good one.
  await again.keep(4)
  await again.close()
  const last = await openMark(path)
  expect(last.known?.counter).toBe(4)
  await last.close()
})

test('a disk that fails is told to everybody who waits, and asked again by the next', async () => {
  let broken = true
  const written: number[] = []
  const write: WriteRecord = async ({ counter }) => {
    if (broken) throw new Error('EIO')
    written.push(counter)
  }
  const mark = makeMark({ node: 'n', counter: 0, era: 0 }, write)
  const ends = await Promise.allSettled([mark.keep(1), mark.keep(2)])
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  // What the database knows is known here too, on the disk or not.
  expect([mark.counter, mark.known?.counter]).toEqual([2, 0])
  broken = false
  await mark.keep(1)
  expect(written).toEqual([2])
})

test('what comes while a lower counter is written is not on the disk with that one', async () => {
  const writes: { readonly counter: number; done(): void }[] = []
  const write: WriteRecord = ({ counter }) => new Promise((done) => void writes.push({ counter, done }))
  const mark = makeMark({ node: 'n', counter: 0, era: 0 }, write)
  const first = mark.keep(1)
  const second = mark.keep(2)
  writes[0]?.done()
  await first
  const told: string[] = []
  const third = mark.keep(2).then(() => told.push('kept'))
  await new Promise((resolve) => setImmediate(resolve))
  expect([told, mark.known?.counter, writes.map(({ counter }) => counter)]).toEqual([[], 1, [1, 2]])
  writes[1]?.done()
  await second
  // Asked for meanwhile, and no more than what is being written: it may share that write, or have its own.
  writes[2]?.done()
  await third
  expect(mark.known?.counter).toBe(2)
})

test('a disk that refuses once more behind a write that it took is heard of once more', async () => {
  let broken = true
  const mark = makeMark({ node: 'n', counter: 0, era: 0 }, () =>
    broken ? Promise.reject(new Error('ENOSPC')) : Promise.resolve(),
  )
  let refused = 0
  mark.onRefused(() => refused++)
  for (const [at, isBroken] of [true, true, false, true].entries()) {
    broken = isBroken
    await mark.keep(at + 1).catch(() => undefined)
  }
  expect(refused).toBe(2)
})

test('a write that failed is made again in its own place, however often: the record before it stays whole', async () => {
  const path = temporaryFolder()
  const mark = await openMark(path)
  await mark.agree({ counter: 1, era: 0 })
  await mark.keep(2)
  let refused = 0
  mark.onRefused(() => refused++)
  const writing = vi.spyOn(Object.getPrototypeOf(await handleOf(path)) as FileHandle, 'write')
  const places: unknown[] = []
  for (const failure of ['throws', 'half', undefined]) {
    if (failure === 'throws') writing.mockRejectedValueOnce(new Error('EIO'))
    if (failure === 'half') writing.mockResolvedValueOnce({ bytesWritten: 60, buffer: '' })
    const kept = mark.keep(3).then(
      () => 'kept',
      ({ name }: Error) => name,
    )
    expect(await kept).toBe(failure === undefined ? 'kept' : 'MarkNotKept')
    places.push((writing.mock.lastCall as readonly unknown[] | undefined)?.[3])
  }
  // The second of the two records was the last good one.
  expect([places, refused]).toEqual([[0, 0, 0], 1])
  writing.mockRestore()
  await mark.close()
  const again = await openMark(path)
  expect(again.known).toMatchObject({ counter: 3 })
  await again.close()
})
/** Any handle: they all have their methods from one place. */
async function handleOf(path: string): Promise<FileHandle> {
  const handle = await open(join(path, 'mark'))
  await handle.close()
  return handle
}

test.runIf(process.getuid?.() === 0)(
  'what root has made there belongs to whom the folder does, who delivers next',
  async () => {
    const path = temporaryFolder()
    chownSync(path, 65_534, 65_534)
    await (await openMark(path)).close()
    expect(statSync(join(path, 'mark'))).toMatchObject({ uid: 65_534, gid: 65_534 })
  },
)
