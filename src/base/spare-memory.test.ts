// What the kernel's files say is free, told from copies of them.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { silentLog } from './log.ts'
import {
  delivered,
  makeRoomInMemory,
  promiseMemory,
  spareMemory,
  withinMemory,
  withinMemoryOverSmtp,
} from './spare-memory.ts'

let root: string
beforeEach(() => void (root = temporaryFolder()))

const mebibyte = 1024 * 1024
const machine = { 'proc/meminfo': 'MemTotal: 999 kB\nMemAvailable:    4096 kB\nSwapFree:     1024 kB\n' }
const unbounded = String(2 ** 63 - 4096)

test.each([
  ['nothing is known', {}, Infinity],
  ['the machine alone bounds us: what is free, with its swap', machine, 5 * mebibyte],
  [
    'a group of version 2 does, and what caches files gives way',
    {
      ...machine,
      'proc/self/cgroup': '0::/system.slice/posthorn.service\n',
      'sys/fs/cgroup/system.slice/posthorn.service/memory.max': '9000000\n',
      'sys/fs/cgroup/system.slice/posthorn.service/memory.current': '8000000\n',
      'sys/fs/cgroup/system.slice/posthorn.service/memory.stat':
        'anon 7\nactive_file 300000\ninactive_file 200000\nworkingset_refault_file 5\n',
    },
    1_500_000,
  ],
  [
    'a group around ours has less',
    {
      ...machine,
      'proc/self/cgroup': '0::/outer/inner\n',
      'sys/fs/cgroup/outer/inner/memory.max': 'max\n',
      'sys/fs/cgroup/outer/memory.max': '3000000\n',
      'sys/fs/cgroup/outer/memory.current': '2000000\n',
    },
    1_000_000,
  ],
  [
    'version 1, in a container whose own path is not to be seen in it',
    {
      ...machine,
      'proc/self/cgroup': '5:cpu,cpuacct:/docker/a\n4:cpuset,memory,pids:/docker/a\n0::/\n',
      'sys/fs/cgroup/memory/memory.limit_in_bytes': '6000000\n',
      'sys/fs/cgroup/memory/memory.usage_in_bytes': '5500000\n',
      'sys/fs/cgroup/memory/memory.stat':
        'inactive_file 9\nactive_file 9\ntotal_inactive_file 100000\ntotal_active_file 50000\n',
    },
    650_000,
  ],
  [
    'a group without a limit is none',
    {
      ...machine,
      'proc/self/cgroup': '4:memory:/\n',
      'sys/fs/cgroup/memory/memory.limit_in_bytes': `${unbounded}\n`,
      'sys/fs/cgroup/memory/memory.usage_in_bytes': '5500000\n',
    },
    5 * mebibyte,
  ],
])('%s', (_, files, spare) => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
  expect(spareMemory(root)).toBe(spare)
})

test('large mail is taken in as far as memory is left for it, small mail always, and the kernel is not asked for each piece', () => {
  let [spare, clock, asked] = [2_000 * mebibyte, 0, 0]
  const room = makeRoomInMemory(
    () => (asked++, spare),
    () => clock,
    () => undefined,
  )
  expect(room()).toBeGreaterThan(500 * mebibyte)
  spare = 120 * mebibyte
  expect(room()).toBeGreaterThan(500 * mebibyte)
  expect(asked).toBe(1)
  clock += 100
  // One mail with a file of 15 MB (20 MB as it comes), and not two.
  expect([room() > 20 * mebibyte, room() > 40 * mebibyte]).toEqual([true, false])
  // What has come of it is not asked for again.
  expect([room(20 * mebibyte) > 30 * mebibyte, room(20 * mebibyte) > 40 * mebibyte]).toEqual([true, false])
  spare = 0
  clock += 100
  expect(room()).toBe(8 * mebibyte)
})

test('what is delivered leaves less to the rest than what is taken in: what was accepted goes out first', () => {
  const room = makeRoomInMemory(
    () => 80 * mebibyte,
    () => 0,
    () => undefined,
  )
  expect([room() > 20 * mebibyte, room(0, delivered) > 20 * mebibyte]).toEqual([false, true])
})

test('a mail that comes over SMTP is held once more while it is taken in, and what has come of it is not asked for again', () => {
  const room = makeRoomInMemory(
    () => 184 * mebibyte,
    () => 0,
    () => undefined,
  )
  const overSmtp = withinMemoryOverSmtp(silentLog, room)
  const most = [withinMemory(silentLog, room).bytesNow(), overSmtp.bytesNow(0), overSmtp.bytesNow(30 * mebibyte)]
  expect(most).toEqual([60 * mebibyte, 40 * mebibyte, 50 * mebibyte])
})

test("what is promised to a mail that is not there yet is nobody else's", () => {
  const room = makeRoomInMemory(
    () => 164 * mebibyte,
    () => 0,
    () => undefined,
  )
  const before = room()
  const over = promiseMemory(40 * mebibyte)
  expect([before, room()]).toEqual([50 * mebibyte, 30 * mebibyte])
  over()
  expect(room()).toBe(before)
})

test('where no memory is left, what nobody needs any more is let go, so that the next large mail is not sent away for it; and not again and again', () => {
  let [spare, clock, collected] = [2_000 * mebibyte, 0, 0]
  const room = makeRoomInMemory(
    () => spare,
    () => clock,
    () => {
      collected++
      spare = 150 * mebibyte
    },
  )
  room()
  expect(collected).toBe(0)
  for (let look = 1; look <= 90; look++) {
    spare = 40 * mebibyte
    clock += 100
    room()
  }
  expect(collected).toBe(1)
  clock += 100
  expect([room() > 40 * mebibyte, collected]).toEqual([false, 1])
  clock += 1_000
  room()
  clock += 100
  expect([room() > 40 * mebibyte, collected]).toEqual([true, 2])
})

test('bytes that nobody holds are given back at once', () => {
  const before = process.memoryUsage().arrayBuffers
  const hold = (): number => Buffer.alloc(30 * mebibyte).length
  hold()
  makeRoomInMemory(() => 0)()
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(mebibyte)
})
