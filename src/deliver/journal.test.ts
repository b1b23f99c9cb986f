// The journal of replies: what was kept is found again, however the process or the disk ended, and nothing is dropped without a word.
import {
  appendFileSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { silentLog, type Log } from '../base/log.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Ending } from '../store/outbound.ts'
import { JournalFull, makeJournal, openJournal, readLines, type JournalFile } from './journal.ts'

let folder: string
const faults: string[] = []
const log: Log = { ...silentLog, fault: (_, error) => void faults.push((error as Error).message) }
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'posthorn-journal-'))
  faults.length = 0
})
afterEach(() => rmSync(folder, { recursive: true }))
const file = () => join(folder, 'journal.jsonl')

const endingOf = (n: number, error = ''): Ending => ({
  id: `01a1fc4e-53db-72a8-aaa8-${String(n).padStart(12, '0')}` as MessageId,
  workspaceId: '01a1fc4d-d884-7706-8ede-87119639000e' as WorkspaceId,
  epoch: 1,
  token: String(n * 1_000_003),
  status: 'sent',
  usesTry: true,
  outcome: 'accepted',
  attempt: { reply: '250 2.0.0 \u00e9\n' },
  event: {},
  ...(error !== '' && { error }),
})
/** What the next life would find. */
const inheritedIds = async () => {
  const journal = await openJournal(folder, log)
  await journal.close()
  return idsIn(journal.inherited)
}
const idsIn = (endings: readonly Ending[]) => endings.map(({ id }) => Number(id.slice(-12)))

test('what was kept is inherited by the next life, until the database has answered', async () => {
  const first = await openJournal(folder, log)
  await Promise.all([1, 2, 3].map((n) => first.keep(endingOf(n))))
  first.settle(endingOf(2))
  // In its own life nothing is inherited: whoever kept it still asks by itself.
  expect([first.inherited, first.size]).toEqual([[], 2])
  await first.close()
  const second = await openJournal(folder, log)
  // An answered one may come again: telling it twice does no harm.
  expect(second.inherited).toEqual([1, 2, 3].map((n) => endingOf(n)))
  for (const n of [1, 2, 3]) second.settle(endingOf(n))
  expect([second.inherited, second.size]).toEqual([[], 0])
  await second.close()
  expect(statSync(file()).size).toBe(0)
})

test('two claims of one message are two replies: an answer to the one leaves the other', async () => {
  const first = await openJournal(folder, log)
  const [one, other] = [endingOf(1), { ...endingOf(1), epoch: 2, token: '77' }]
  await first.keep(one)
  await first.keep(other)
  first.settle(one)
  expect(first.size).toBe(1)
  await first.close()
  const second = await openJournal(folder, log)
  second.settle(one)
  expect(second.inherited).toEqual([other])
  await second.close()
})

// A database that was restored counts the epochs of a message anew.
test('nor does the answer to a claim of the same number, made by a database that has forgotten the first', async () => {
  const journal = await openJournal(folder, log)
  const [forgotten, anew] = [endingOf(1), { ...endingOf(1), token: '77' }]
  await journal.keep(forgotten)
  journal.settle(anew)
  expect(journal.size).toBe(1)
  await journal.close()
})

test('one that cannot be read is not taken for an empty one, and stays as it is', async () => {
  const tooBig = 2 ** 31
  writeFileSync(file(), '')
  truncateSync(file(), tooBig) // a hole, which takes no room
  await expect(openJournal(folder, log)).rejects.toThrow()
  expect(statSync(file()).size).toBe(tooBig)
})

test('a last line that was cut off is left out without a word, and what follows it is whole', async () => {
  const first = await openJournal(folder, log)
  await first.keep(endingOf(1))
  await first.keep(endingOf(2))
  await first.close()
  truncateSync(file(), statSync(file()).size - 30)
  const second = await openJournal(folder, log)
  expect([idsIn(second.inherited), faults]).toEqual([[1], []])
  await second.keep(endingOf(3))
  await second.close()
  expect(await inheritedIds()).toEqual([1, 3])
  expect(faults).toEqual([])
})

test('a damaged line is reported and kept aside, and its neighbours are told', async () => {
  const first = await openJournal(folder, log)
  for (const n of [1, 2, 3]) await first.keep(endingOf(n))
  await first.close()
  const damaged = readFileSync(file(), 'utf8').replace('000000000002', '000000000009')
  writeFileSync(file(), damaged)
  expect(await inheritedIds()).toEqual([1, 3])
  expect(faults).toEqual([expect.stringContaining('1 lines of')])
  const copy = readdirSync(folder).find((name) => name.includes('damaged')) ?? ''
  expect(readFileSync(join(folder, copy), 'utf8')).toBe(damaged)
  // Once: the file itself is good again.
  faults.length = 0
  expect(await inheritedIds()).toEqual([1, 3])
  expect(faults).toEqual([])
})

test('garbage at the end, as a disk leaves it after a power cut, costs nothing that was kept', async () => {
  const first = await openJournal(folder, log)
  await first.keep(endingOf(1))
  await first.close()
  appendFileSync(file(), Buffer.alloc(500))
  expect(await inheritedIds()).toEqual([1])
})

// A full disk takes the first half of a line. The next line, told to be on the disk, stood behind that half and was damaged with it.
test('a line that a full disk cut in the middle does not take the next one with it', async () => {
  const handle = await open(file(), 'a', 0o600)
  const room = { left: Infinity }
  const full = (): Error => Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  const disk: JournalFile = {
    appendFile: async (text) => {
      const bytes = Buffer.from(text as string)
      await handle.appendFile(bytes.subarray(0, room.left))
      if (bytes.length > room.left) throw full()
    },
    truncate: (length) => handle.truncate(length),
    datasync: () => handle.datasync(),
    close: () => handle.close(),
  }
  const journal = makeJournal(disk, [], 0)
  await journal.keep(endingOf(1))
  for (const left of [0, 40]) {
    room.left = left
    await expect(journal.keep(endingOf(2))).rejects.toThrow('no space left')
  }
  room.left = Infinity
  await journal.keep(endingOf(3))
  await journal.keep(endingOf(2))
  await journal.close()
  expect((await inheritedIds()).toSorted((one, other) => one - other)).toEqual([1, 2, 3])
  expect(faults).toEqual([])
})

test('nor does it cost what an earlier life has left in front of it', async () => {
  const first = await openJournal(folder, log)
  await first.keep(endingOf(1))
  await first.close()
  const second = await openJournal(folder, log)
  const any = await open(file())
  // All handles have their methods from one place.
  const appending = vi.spyOn(Object.getPrototypeOf(any) as FileHandle, 'appendFile')
  await any.close()
  appending.mockRejectedValueOnce(new Error('no space left on device'))
  await expect(second.keep(endingOf(2))).rejects.toThrow('no space left')
  appending.mockRestore()
  await second.keep(endingOf(3))
  await second.close()
  expect([await inheritedIds(), faults]).toEqual([[1, 3], []])
})

// What an emptying that failed behind its truncation had left in the books was made up for with zeros, and the next line stood behind those.
test('nor does one behind an emptying that the disk did not confirm', async () => {
  const handle = await open(file(), 'a', 0o600)
  const trouble = { left: Infinity, sync: false, failed: 0 }
  const disk: JournalFile = {
    appendFile: async (text) => {
      const bytes = Buffer.from(text as string)
      await handle.appendFile(bytes.subarray(0, trouble.left))
      if (bytes.length > trouble.left) throw new Error('no space left on device')
    },
    truncate: (length) => handle.truncate(length),
    datasync: async () => {
      if (!trouble.sync) return handle.datasync()
      trouble.failed++
      throw new Error('the disk is broken')
    },
    close: () => handle.close(),
  }
  const journal = makeJournal(disk, [], 0)
  await journal.keep(endingOf(1, 'of many words'.repeat(20)))
  trouble.sync = true
  journal.settle(endingOf(1))
  await expect.poll(() => trouble.failed).toBe(1)
  trouble.sync = false
  await journal.keep(endingOf(2))
  trouble.left = 40
  await expect(journal.keep(endingOf(3))).rejects.toThrow('no space left')
  trouble.left = Infinity
  await journal.keep(endingOf(4))
  await journal.close()
  expect(await inheritedIds()).toEqual([2, 4])
  expect(faults).toEqual([])
})

test('what is kept while the file is emptied counts, and is emptied in its turn', async () => {
  const handle = await open(file(), 'a', 0o600)
  let emptied = Promise.resolve()
  const disk: JournalFile = {
    appendFile: (text) => handle.appendFile(text),
    truncate: async (length) => {
      await emptied
      await handle.truncate(length)
    },
    datasync: () => handle.datasync(),
    close: () => handle.close(),
  }
  const journal = makeJournal(disk, [], 0)
  await journal.keep(endingOf(1))
  let go = () => undefined as void
  emptied = new Promise((resolve) => (go = resolve))
  journal.settle(endingOf(1))
  const kept = journal.keep(endingOf(2))
  go()
  await kept
  expect(statSync(file()).size).toBeGreaterThan(0)
  journal.settle(endingOf(2))
  await expect.poll(() => statSync(file()).size).toBe(0)
  await journal.close()
})

test('nothing is told to be kept before the disk has it, or where the disk could not', async () => {
  const syncs: { resolve(): void; reject(error: Error): void }[] = []
  const disk: JournalFile = {
    appendFile: () => Promise.resolve(),
    truncate: () => Promise.resolve(),
    datasync: () => new Promise((resolve, reject) => void syncs.push({ resolve, reject })),
    close: () => Promise.resolve(),
  }
  const journal = makeJournal(disk, [], 0)
  const told: string[] = []
  const keep = (n: number) =>
    journal.keep(endingOf(n)).then(
      () => told.push(`${n} kept`),
      () => told.push(`${n} lost`),
    )
  const first = keep(1)
  await turn()
  const later = [keep(2), keep(3)]
  await turn()
  expect([told, syncs.length]).toEqual([[], 1])
  syncs[0]?.resolve()
  await first
  await turn()
  expect([told, syncs.length]).toEqual([['1 kept'], 2])
  syncs[1]?.reject(new Error('the disk is broken'))
  await Promise.all(later)
  expect([told, journal.size]).toEqual([['1 kept', '2 lost', '3 lost'], 1])
})
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('the disk is asked for one thing after the other, whatever comes meanwhile, and closed when all is done', async () => {
  let under = ''
  let isFull = false
  const asked: string[] = []
  const slowly = (what: string) => async () => {
    asked.push(under === '' ? what : `${what} during ${under}`)
    under = what
    for (let turns = 0; turns < 3; turns++) await turn()
    under = ''
    if (isFull && what === 'append') throw new Error('no space left on device')
  }
  const disk: JournalFile = {
    appendFile: slowly('append'),
    truncate: slowly('truncate'),
    datasync: slowly('sync'),
    close: slowly('close'),
  }
  const journal = makeJournal(disk, [], 0)
  const kept = journal.keep(endingOf(1))
  journal.settle(endingOf(1)) // the database has answered while it is written
  await kept
  await turn()
  await journal.keep(endingOf(2))
  const both = ['append', 'sync', 'truncate', 'sync']
  expect(asked.splice(0)).toEqual([...both, 'append', 'sync'])
  isFull = true
  const refused = journal.keep(endingOf(3))
  const next = journal.keep(endingOf(4))
  await expect(refused).rejects.toThrow('no space left')
  isFull = false
  await next
  journal.settle(endingOf(2))
  journal.settle(endingOf(4))
  await journal.close()
  expect(asked).toEqual(['append', 'truncate', 'append', 'sync', 'truncate', 'sync', 'close'])
  expect(under).toBe('')
})

test('what the disk refused takes no room from later replies', async () => {
  let isFull = true
  const disk: JournalFile = {
    appendFile: () => (isFull ? Promise.reject(new Error('no space left on device')) : Promise.resolve()),
    truncate: () => Promise.resolve(),
    datasync: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const journal = makeJournal(disk, [], 0)
  const big = 'x'.repeat(1024 * 1024)
  for (let bytes = 0; bytes <= limits.journalBytesMax; bytes += big.length)
    await expect(journal.keep(endingOf(1, big))).rejects.toThrow('no space left')
  isFull = false
  await journal.keep(endingOf(1, big))
  expect(journal.size).toBe(1)
})

test('what cannot be emptied is not tried on and on, but behind the next line', async () => {
  let truncations = 0
  const disk: JournalFile = {
    appendFile: () => Promise.resolve(),
    truncate: () => (truncations++ < 100 ? Promise.reject(new Error('the disk is broken')) : Promise.resolve()),
    datasync: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const journal = makeJournal(disk, [], 0)
  for (let n = 1; n <= 3; n++) {
    await journal.keep(endingOf(n))
    journal.settle(endingOf(n))
    for (let turns = 0; turns < 5; turns++) await turn()
    expect(truncations).toBe(n)
  }
})

test('what is kept while the disk refuses to empty the file is written all the same, and nobody waits for another', async () => {
  const written: string[] = []
  let refuse: ((error: Error) => void) | undefined
  const disk: JournalFile = {
    appendFile: (text) => Promise.resolve(void written.push(text as string)),
    truncate: () => new Promise((_, reject) => (refuse = reject)),
    datasync: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const journal = makeJournal(disk, [], 0)
  await journal.keep(endingOf(1))
  journal.settle(endingOf(1))
  const kept = journal.keep(endingOf(2))
  refuse?.(new Error('the disk is broken'))
  await turn()
  expect(written.map((text) => idsIn(readLines(text).endings))).toEqual([[1], [2]])
  await kept
  await journal.close()
})

test('it is bounded: beyond that a reply is refused by name, and room comes back', async () => {
  const journal = await openJournal(folder, log)
  const big = 'x'.repeat(1024 * 1024)
  const room = Math.floor(limits.journalBytesMax / (big.length + 1_000))
  for (let n = 1; n <= room; n++) await journal.keep(endingOf(n, big))
  await expect(journal.keep(endingOf(9_999, big))).rejects.toBeInstanceOf(JournalFull)
  expect(journal.size).toBe(room)
  for (let n = 1; n <= room; n++) journal.settle(endingOf(n))
  await journal.close()
  const again = await openJournal(folder, log)
  await again.keep(endingOf(9_999, big))
  expect(again.size).toBe(1)
  await again.close()
})

test.runIf(process.getuid?.() === 0)(
  'what root has made there belongs to whom the folder does, who delivers next',
  async () => {
    chownSync(folder, 65_534, 65_534)
    await (await openJournal(folder, log)).close()
    appendFileSync(file(), 'cut off')
    await (await openJournal(folder, log)).close()
    appendFileSync(file(), 'damaged\n')
    await (await openJournal(folder, log)).close()
    const owners = readdirSync(folder).map((name) => statSync(join(folder, name)).uid)
    expect(owners).toEqual([65_534, 65_534])
  },
)
