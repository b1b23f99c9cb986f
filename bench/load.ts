// The load of the REST rows: wrk with bodies of about 1 KB, each to another recipient, over kept connections.
import { fileURLToPath } from 'node:url'
import { watchCpu } from './cpu.ts'
import type { Usage } from './cpu.ts'
import { findProgram, run } from './processes.ts'

const script = fileURLToPath(new URL('wrk-send.lua', import.meta.url))
/** Of the rows about time: some of them wait, none for long. */
export const connections = 64
/** Of the rows about rates: every server has all that it can take. One that works in batches waits for its callers at 64. */
export const manyConnections = 256

/** One who may send. */
export interface Sender {
  readonly key: string
  readonly mailboxId: string
}

/** Something that takes the requests of `POST /api/v1/send`. */
export interface Target {
  readonly name: string
  readonly port: number
  /** Each a workspace of its own: quota rows are not the same for all. */
  readonly senders: readonly Sender[]
  /** Its processes are these and whatever they started. */
  readonly pids: readonly number[]
}

export interface Measured {
  readonly perSecond: number
  readonly p99Ms: number
  readonly usage: Usage
}

/** One run of `seconds`. Throws when anything but a 2xx came back. */
export async function load(target: Target, seconds: number, open = connections): Promise<Measured> {
  const wrk = findProgram('wrk')
  if (wrk === undefined) throw new Error('wrk is not installed (bench/setup.sh)')
  const senders = target.senders.map(({ key, mailboxId }) => `${key},${mailboxId}`)
  const args = ['-t', '1', '-c', `${open}`, '-d', `${seconds}`, '--timeout', '10s', '-s', script]
  const usage = watchCpu(target.pids, 'wrk')
  const words = await run(wrk, [...args, `http://127.0.0.1:${target.port}`, '--', ...senders], {
    ms: (seconds + 30) * 1000,
  })
  const used = usage()
  const [, requests, microseconds, p99, errors] =
    /RESULT (\d+) requests (\d+) us p99 (\d+) us errors (\d+)/.exec(words)?.map(Number) ?? []
  if (requests === undefined || microseconds === undefined || p99 === undefined || requests === 0)
    throw new Error(`wrk against ${target.name} measured nothing: ${words}`)
  if (errors !== 0) throw new Error(`${target.name} refused ${errors} of ${requests} requests of wrk`)
  return { perSecond: requests / (microseconds / 1e6), p99Ms: p99 / 1000, usage: used }
}
