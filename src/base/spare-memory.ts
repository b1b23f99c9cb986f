// How much memory may still be taken before the kernel ends somebody: of the machine, and of each control group (version 1 or 2) that bounds us. What
// caches files counts as free, because it gives way. Without Linux, nobody says.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { limits } from '../config.ts'
import type { Log } from './log.ts'

/** By the kernel's files, which a test lays elsewhere. Infinity where nothing is known. */
export function spareMemory(root = '/'): number {
  const meminfo = read(root, 'proc/meminfo') ?? ''
  const kibibytes = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(meminfo)?.[1] ?? NaN)
  const free = 1024 * (kibibytes('MemAvailable') + kibibytes('SwapFree'))
  const groups = read(root, 'proc/self/cgroup') ?? ''
  const bounds = versions.flatMap((version) => {
    const path = version.path.exec(groups)?.[1]
    return path === undefined ? [] : upwards(path).map((each) => spareIn(join(root, version.folder, each), version))
  })
  return Math.min(...[free, ...bounds].map((bytes) => (Number.isNaN(bytes) ? Infinity : bytes)))
}

interface Version {
  /** Of the group, in /proc/self/cgroup. */
  readonly path: RegExp
  readonly folder: string
  readonly limit: string
  readonly used: string
  readonly cached: RegExp
}

const versions: readonly Version[] = [
  {
    path: /^0::(.*)$/m,
    folder: 'sys/fs/cgroup',
    limit: 'memory.max',
    used: 'memory.current',
    cached: /^(?:in)?active_file (\d+)$/gm,
  },
  {
    path: /^\d+:(?:\w+,)*memory(?:,\w+)*:(.*)$/m,
    folder: 'sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    used: 'memory.usage_in_bytes',
    cached: /^total_(?:in)?active_file (\d+)$/gm,
  },
]

/** A group has what those around it leave. Inside of a container its own path may name nothing, and the root is the container's. */
function upwards(path: string): string[] {
  return path === '/' || path === '.' ? [path] : [path, ...upwards(dirname(path))]
}

function spareIn(folder: string, { limit, used, cached }: Version): number {
  const most = Number(read(folder, limit) ?? NaN) // `max` is no number, and bounds nobody
  const caches = [...(read(folder, 'memory.stat') ?? '').matchAll(cached)].reduce(
    (sum, [, bytes]) => sum + Number(bytes),
    0,
  )
  return most - Number(read(folder, used) ?? NaN) + caches
}

function read(...path: readonly string[]): string | undefined {
  try {
    return readFileSync(join(...path), 'utf8')
  } catch {
    return undefined
  }
}

/** What large mail needs of memory. */
interface Need {
  /** Left to everything else. */
  readonly reserveBytes: number
  /** It is there so many times at once, or a little less. */
  readonly timesHeld: number
}
/** As it came, and decoded or before the scanner. */
const takenIn: Need = { reserveBytes: limits.memoryReserveBytes, timesHeld: 2 }
/** With the fields that it lacked, or without those that are not sent on, one time more. */
const takenInOverSmtp: Need = { ...takenIn, timesHeld: 3 }
/** Its files, and the mail that is made of them. */
export const delivered: Need = { reserveBytes: limits.deliveryReserveBytes, timesHeld: 2 }
/** About the largest mail: with room for it, nothing has to be done. */
const largestBytes = 32 * 1024 * 1024
const rememberedMs = 100
const collectedAgainMs = 10_000

/**
 * How much large mail may be held at this moment, as it comes; `there` of it has come already, and is in memory. `limits` say how much may be on a machine of
 * that size; this, what the machine has left beside commands, the database, a scanner and what was never given back. Better to send somebody away than to be ended with all that is under way.
 */
export function makeRoomInMemory(
  spare: () => number = spareMemory,
  now: () => number = () => performance.now(),
  collect: () => void = collectGarbage,
): (there?: number, need?: Need) => number {
  let left = 0
  let readAt = -Infinity
  let collectedAt = -Infinity
  return (there = 0, { reserveBytes, timesHeld } = takenIn) => {
    if (now() >= readAt + rememberedMs) {
      left = spare()
      readAt = now()
      if (left - takenIn.reserveBytes < largestBytes * takenIn.timesHeld && readAt >= collectedAt + collectedAgainMs) {
        collectedAt = readAt
        collect()
      }
    }
    return Math.max(limits.mailWithoutMemoryBytes, (left - promised - reserveBytes + there) / timesHeld)
  }
}
export const roomInMemory = makeRoomInMemory()

/** What large mail will take that is let in and not there yet: no look at the memory tells of it. */
let promised = 0
/** So much is for nobody else in this process, until the answer is called. */
export function promiseMemory(bytes: number): () => void {
  promised += bytes
  return () => void (promised -= bytes)
}

/** Its name in the log, in the metrics and in ops/alerts.yml. */
export const largeMailFault = 'large mail'

/** For a room where mail is taken in: as much as there is memory for, and whoever looks after this machine hears of each that was sent away for want of it. */
export const withinMemory = (log: Pick<Log, 'fault'>, room = roomInMemory) => ({
  bytesNow: () => room(),
  lacked: () =>
    log.fault(largeMailFault, new Error('no memory is left to take it in: its sender was told to come again')),
})
export const withinMemoryOverSmtp = (log: Pick<Log, 'fault'>, room = roomInMemory) => ({
  ...withinMemory(log),
  bytesNow: (heldBytes: number) => room(heldBytes, takenInOverSmtp),
})

/**
 * The bytes of large mail that is done with are there until V8 has a reason to look, and that the system has nothing left is none to it: a service that
 * has little to do would send the next one away for ever. What is found is free a moment later.
 */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  garbageCollector ??= runInNewContext('gc') as () => void
  garbageCollector()
}
let garbageCollector: (() => void) | undefined
