// Who used the processors while something was measured: the difference of /proc between two moments, over the processes named and
// everything that they started. proc(5).
import * as fs from 'node:fs'
import { availableParallelism } from 'node:os'

export const cores = availableParallelism()
/** USER_HZ, which is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100

interface Moment {
  readonly atMs: number
  readonly processes: ReadonlyMap<number, Process>
  /** Of the whole machine, in ticks. */
  readonly busy: number
  readonly waiting: number
}
interface Process {
  readonly name: string
  readonly parent: number
  readonly ticks: number
  readonly threadTicks: ReadonlyMap<string, number>
  /** Of its children that have ended. */
  readonly reapedTicks: number
}

/** In cores: 1 is one processor all the time. */
export interface Usage {
  readonly machine: number
  /** Idle, but with a disk at work. */
  readonly disk: number
  /** Of processes that have no part in the measurement. */
  readonly others: number
  readonly byProgram: ReadonlyMap<string, number>
  /** The one thread that used most, by the name of its program. */
  readonly first: { readonly name: string; readonly share: number }
}

/**
 * Starts the clock; the returned function stops it. `roots` are what is measured, with whatever they start. `meanwhile` names the
 * program that the bench itself starts and sees end in between.
 */
export function watchCpu(roots: readonly number[], meanwhile?: string): () => Usage {
  const before = look()
  return () => usageBetween(before, look(), roots, meanwhile)
}

function usageBetween(before: Moment, after: Moment, roots: readonly number[], meanwhile?: string): Usage {
  const ticks = ((after.atMs - before.atMs) / 1000) * ticksPerSecond
  const byProgram = new Map<string, number>()
  let first = { name: 'nothing', share: 0 }
  let ours = 0
  const bench = after.processes.get(process.pid)
  if (meanwhile !== undefined && bench !== undefined) {
    ours = reapedMeanwhile(process.pid, bench, before.processes.get(process.pid), before, after) / ticks
    byProgram.set(meanwhile, ours)
    first = { name: meanwhile, share: ours }
  }
  for (const [pid, now] of after.processes) {
    if (!descendsFrom(pid, roots, after.processes)) continue
    const then = before.processes.get(pid)
    const share = (now.ticks - (then?.ticks ?? 0)) / ticks
    const withReaped = share + reapedMeanwhile(pid, now, then, before, after) / ticks
    byProgram.set(now.name, (byProgram.get(now.name) ?? 0) + withReaped)
    ours += withReaped
    for (const [thread, used] of now.threadTicks) {
      const threadShare = (used - (then?.threadTicks.get(thread) ?? 0)) / ticks
      if (threadShare > first.share) first = { name: now.name, share: threadShare }
    }
  }
  const machine = (after.busy - before.busy) / ticks
  return {
    machine,
    disk: (after.waiting - before.waiting) / ticks,
    others: Math.max(0, machine - ours),
    byProgram,
    first,
  }
}

/** What ended children used in between: all they ever used, less what they had already used at the first look. */
function reapedMeanwhile(pid: number, now: Process, then: Process | undefined, before: Moment, after: Moment): number {
  let ticks = now.reapedTicks - (then?.reapedTicks ?? 0)
  for (const [child, each] of before.processes)
    if (each.parent === pid && !after.processes.has(child)) ticks -= each.ticks + each.reapedTicks
  return Math.max(0, ticks)
}

function descendsFrom(pid: number, roots: readonly number[], processes: ReadonlyMap<number, Process>): boolean {
  for (let each = pid; each > 1; each = processes.get(each)?.parent ?? 0) if (roots.includes(each)) return true
  return false
}

/** The processes and what they started, as numbers. */
export function familyOf(roots: readonly number[]): { readonly pid: number; readonly name: string }[] {
  const { processes } = look()
  return [...processes].filter(([pid]) => descendsFrom(pid, roots, processes)).map(([pid, { name }]) => ({ pid, name }))
}

function look(): Moment {
  const [, user = 0, nice = 0, system = 0, , waiting = 0, irq = 0, softirq = 0] =
    fs.readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]?.split(/\s+/).map(Number) ?? []
  const processes = new Map<number, Process>()
  for (const entry of fs.readdirSync('/proc')) {
    const pid = Number(entry)
    const found = pid > 0 ? read(pid) : undefined
    if (found !== undefined) processes.set(pid, found)
  }
  return { atMs: performance.now(), processes, busy: user + nice + system + irq + softirq, waiting }
}

function read(pid: number): Process | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [parent = 0, user = 0, system = 0, reapedUser = 0, reapedSystem = 0] = fieldsOf(stat, [1, 11, 12, 13, 14])
    return {
      name: programOf(pid, stat),
      parent,
      ticks: user + system,
      threadTicks: threadsOf(pid),
      reapedTicks: reapedUser + reapedSystem,
    }
  } catch {
    return undefined // it has ended meanwhile
  }
}

function threadsOf(pid: number): Map<string, number> {
  return new Map(
    fs.readdirSync(`/proc/${pid}/task`).map((thread) => {
      const [user = 0, system = 0] = fieldsOf(fs.readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'), [11, 12])
      return [thread, user + system]
    }),
  )
}

/** Fields behind the name, which stands in brackets and may hold anything, brackets too. */
function fieldsOf(stat: string, indices: readonly number[]): number[] {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return indices.map((index) => Number(fields[index]))
}

/** The program's file rather than the process's title, which programs change as they like; the title where the file is not ours to see. */
function programOf(pid: number, stat: string): string {
  try {
    const path = fs.readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '')
    return path.slice(path.lastIndexOf('/') + 1)
  } catch {
    return stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))
  }
}

/** What stood in the way of more: a thread with a core of its own, the whole machine, the disk, or nothing. */
export function saturated({ first, machine, disk, byProgram }: Usage): string {
  const [largest = 'nothing'] = [...byProgram].sort(([, one], [, other]) => other - one)[0] ?? []
  if (machine >= 0.92 * cores) return `all cores, ${largest} most`
  if (first.share >= 0.9) return first.name
  if (disk >= 0.15 * cores) return 'disk'
  return `none, ${largest} most`
}

/** Who used how much, in cores: `node 0.98, postgres 0.61, others 0.02`. */
export function shares({ byProgram, others }: Usage): string {
  const each = [...byProgram].sort(([, one], [, other]) => other - one).filter(([, share]) => share >= 0.05)
  return [...each, ['others', others] as const].map(([name, share]) => `${name} ${share.toFixed(2)}`).join(', ')
}
