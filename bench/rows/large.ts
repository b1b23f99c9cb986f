// Large mail beside small: what the accepting process takes in memory while 100 clients send 20 MB each at the same time, and what small
// sends wait while 8 clients send 20 MB without a pause, against the same small sends (wrk) alone. Role api alone: the accepting process.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { connections, load, type Sender, type Target } from '../load.ts'
import type { Options } from '../options.ts'
import { folderIn } from '../processes.ts'
import { installation, makeSenders } from '../service.ts'
import type { Row } from '../table.ts'

export interface LargeRuns {
  readonly alone: readonly number[]
  readonly beside: readonly number[]
  readonly megabytes: readonly number[]
}

const fileBytes = 20 * 1024 * 1024
const largeClients = 8
const manyClients = 100

export async function runLarge(options: Options, temporary: string): Promise<LargeRuns> {
  const { pairs, seconds, smoke, tell } = options
  const home = installation(folderIn(temporary, 'posthorn-large'))
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  const target: Target = { ...service, senders: await makeSenders(home, 4) }
  const content = Buffer.from(randomBytes(fileBytes).toString('base64'))
  const runs = { alone: [] as number[], beside: [] as number[], megabytes: [] as number[] }
  await load(target, Math.min(3, seconds)) // what is compiled while it runs
  for (let pair = 1; pair <= pairs; pair++) {
    // Twice as long as other loads: one stall of all connections is a third of one per cent of a run, and a p99 is to be more than the three worst.
    runs.alone.push((await load(target, 2 * seconds)).p99Ms)
    const ends = new AbortController()
    const uploads = uploadUntil(target, content, ends.signal)
    await setTimeout(smoke ? 0 : 1_000) // until large ones are at every stage of their way
    runs.beside.push((await load(target, 2 * seconds)).p99Ms)
    ends.abort()
    const count = await uploads
    tell(
      `large ${pair}/${pairs}: p99 of small sends alone ${runs.alone.at(-1)?.toFixed(1)} ms, beside ${count} large ones ${runs.beside.at(-1)?.toFixed(1)} ms`,
    )
  }
  // Once, and last: the disk is busy for a while with what 2 GB leave behind in PostgreSQL.
  runs.megabytes.push(await peakMemory(target, content, smoke ? 12 : manyClients, tell))
  await service.stop()
  return runs
}

export function largeRows({ alone, beside, megabytes }: LargeRuns): Row[] {
  return [
    {
      name: `p99 of 1 KB sends at ${connections} connections while ${largeClients} clients send 20 MB`,
      ours: beside,
      unit: 'ms',
      peer: { name: 'without them', figures: alone },
      better: 'less',
      must: 3,
      aim: 1.5,
    },
    {
      name: `memory of the accepting process, ${manyClients} sends of 20 MB at once`,
      ours: megabytes,
      unit: 'MB',
      better: 'less',
      must: 600,
      aim: 350,
    },
  ]
}

/** Sends large ones from all clients until the signal; answers how many were accepted. */
async function uploadUntil(target: Target, content: Buffer, signal: AbortSignal): Promise<number> {
  let accepted = 0
  const client = async (n: number): Promise<void> => {
    while (!signal.aborted) {
      const status = await upload(target, n, content)
      if (status === 202) accepted++
      else await setTimeout(100) // 503: it says how long; a bench is less patient
    }
  }
  await Promise.all(Array.from({ length: largeClients }, (_, n) => client(n)))
  return accepted
}

/** The highest resident set of the process while all clients send at once, in megabytes of a million bytes. */
async function peakMemory(target: Target, content: Buffer, clients: number, tell: Options['tell']): Promise<number> {
  const [pid] = target.pids
  if (pid === undefined) throw new Error('no process to look at')
  fs.writeFileSync(`/proc/${pid}/clear_refs`, '5') // the peak begins anew
  const statuses = await Promise.all(Array.from({ length: clients }, (_, n) => upload(target, n, content)))
  const peak = Number(/^VmHWM:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN)
  const accepted = statuses.filter((status) => status === 202).length
  const others = statuses.filter((status) => ![202, 503, 0].includes(status))
  if (others.length > 0) throw new Error(`large sends were answered with ${others.join(', ')}`)
  tell(
    `${clients} sends of 20 MB at once: ${accepted} accepted, ${clients - accepted} told to come again; peak ${((peak * 1024) / 1e6).toFixed(0)} MB`,
  )
  return (peak * 1024) / 1e6
}

/** The status, or 0 where the connection was closed while we still wrote, and we heard no answer. */
function upload({ port, senders }: Target, n: number, content: Buffer): Promise<number> {
  const { key, mailboxId } = senders[n % senders.length] as Sender
  const [before, behind] = JSON.stringify({
    mailboxId,
    recipient: `large${n}@there.example`,
    subject: 'Bench',
    bodyText: 'large',
    attachments: [{ filename: 'large.bin', contentBase64: '*' }],
  })
    .split('*')
    .map((each) => Buffer.from(each)) as [Buffer, Buffer]
  const length = before.length + content.length + behind.length
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': length }
  return new Promise((resolve) => {
    const sent = request({ host: '127.0.0.1', port, path: '/api/v1/send', method: 'POST', headers }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode ?? 0))
    })
    sent.once('error', () => resolve(0))
    sent.write(before)
    sent.write(content) // one buffer for all of them
    sent.end(behind)
  })
}
