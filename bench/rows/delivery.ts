// Delivery of a backlog to smtp-sink, signed with RSA-2048, against what the processors could sign at most and against Postfix. The backlog
// is taken over REST by a service that does not deliver, and delivered by one that does nothing else.
import { setTimeout } from 'node:timers/promises'
import { Pool } from 'undici'
import { shares, watchCpu } from '../cpu.ts'
import type { Usage } from '../cpu.ts'
import type { Sender } from '../load.ts'
import type { Options } from '../options.ts'
import { startPostfix, whyNoPostfix } from '../peers/postfix.ts'
import type { Postfix } from '../peers/postfix.ts'
import { measureRsaLimit } from '../peers/rsa-limit.ts'
import { startSink } from '../peers/sink.ts'
import { folderIn } from '../processes.ts'
import { installation, look, makeSenders } from '../service.ts'
import type { Installation } from '../service.ts'
import { whyUnhealthy } from '../health.ts'
import type { Calibration } from '../health.ts'
import { median, usagesOf } from '../table.ts'
import type { Row } from '../table.ts'

interface Rate {
  readonly perSecond: number
  readonly usage: Usage
}
export interface DeliveryRuns {
  readonly ours: readonly Rate[]
  readonly rsa: readonly Rate[]
  /** Empty where Postfix cannot run, and `noPostfix` says why. */
  readonly signed: readonly Rate[]
  readonly unsigned: readonly Rate[]
  readonly released: readonly Rate[]
  readonly noPostfix: string | undefined
}

export async function runDelivery(options: Options, temporary: string): Promise<DeliveryRuns> {
  const { pairs, backlog, postfixBacklog, rsaSeconds } = options
  const runs = {
    ours: [] as Rate[],
    rsa: [] as Rate[],
    signed: [] as Rate[],
    unsigned: [] as Rate[],
    released: [] as Rate[],
  }
  const sink = await startSink(temporary)
  const noPostfix = whyNoPostfix()
  const signing = noPostfix === undefined ? await startPostfix(temporary, sink, true) : undefined
  const plain = noPostfix === undefined ? await startPostfix(temporary, sink, false) : undefined
  const home = installation(folderIn(temporary, 'posthorn-delivery'))
  const senders = await prepare(home)
  const settings = { POSTHORN_ROLES: 'deliver', POSTHORN_ROUTE: `smtp://127.0.0.1:${sink.port}` }

  for (let pair = 1; pair <= pairs; pair++) {
    const note = (name: keyof typeof runs, rate: Rate): void => {
      runs[name].push(rate)
      options.tell(`delivery ${pair}/${pairs} ${name}: ${Math.round(rate.perSecond)}/s; ${shares(rate.usage)}`)
    }
    const peer = async (name: 'signed' | 'unsigned' | 'released', postfix: Postfix | undefined): Promise<void> => {
      if (postfix === undefined) return
      note(name, await (name === 'released' ? postfix.release(postfixBacklog) : postfix.relay(postfixBacklog)))
    }
    note('rsa', await measureRsaLimit(rsaSeconds))
    await peer('signed', signing)
    await fill(home, senders, backlog)
    note('ours', await deliver(home, settings, backlog, sink.pid))
    await peer('released', signing)
    await peer('unsigned', plain)
  }
  for (const each of [signing, plain, sink]) await each?.stop()
  return { ...runs, noPostfix }
}

async function prepare(home: Installation): Promise<Sender[]> {
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  const senders = await makeSenders(home, 4)
  await service.stop()
  return senders
}

const text = 'The quick brown fox jumps over the lazy dog. '.repeat(20)

/** A backlog: taken by a service that does nothing else. */
export async function fill(home: Installation, senders: readonly Sender[], count: number): Promise<void> {
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  try {
    await accept(service.port, senders, count)
  } finally {
    await service.stop()
  }
}

/** Exactly so many, each answered with 202: what was accepted must be what is delivered. */
export async function accept(port: number, senders: readonly Sender[], count: number): Promise<void> {
  const http = new Pool(`http://127.0.0.1:${port}`, { connections: 64 })
  let next = 0
  const caller = async (): Promise<void> => {
    while (next < count) {
      const number = next++
      const { key = '', mailboxId } = senders[number % senders.length] ?? {}
      const recipient = `u${number}@d${number % 20}.example.com`
      const answer = await http.request({
        method: 'POST',
        path: '/api/v1/send',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ mailboxId, recipient, subject: `Order ${number}`, bodyText: text }),
      })
      await answer.body.dump()
      if (answer.statusCode !== 202) throw new Error(`the backlog was refused with ${answer.statusCode}`)
    }
  }
  try {
    await Promise.all(Array.from({ length: 64 }, caller))
  } finally {
    await http.close()
  }
}

/** From the end of the first tenth, in which things are compiled, to the last message finished, by the database's clock. */
async function deliver(
  home: Installation,
  settings: Readonly<Record<string, string>>,
  count: number,
  sinkPid: number,
): Promise<Rate> {
  const began = new Date()
  const service = await home.serve(settings)
  const usage = watchCpu([...service.pids, sinkPid])
  const database = await look(home.dataDir)
  try {
    const deadline = Date.now() + 60_000 + count * 5
    // Counting an index of a queue that shrinks costs little; five times a second it is nothing.
    for (let left = count; left > 0; await setTimeout(200)) {
      const { rows } = await database.query<{ left: number }>('select count(*)::integer as left from outbound')
      left = rows[0]?.left ?? 0
      if (Date.now() > deadline) throw new Error(`${left} of ${count} messages are still queued`)
    }
    const used = usage()
    const { rows } = await database.query<{ sent: number; counted: number; seconds: number }>(finished, [began])
    const { sent = 0, counted = 0, seconds = 0 } = rows[0] ?? {}
    if (sent !== count) throw new Error(`${sent} of ${count} messages were sent`)
    return { perSecond: counted / seconds, usage: used }
  } finally {
    await database.end()
    await service.stop()
  }
}

const finished = `
  with done as (
    select finished_at, row_number() over (order by finished_at) n, count(*) over () many
      from messages where status = 'sent' and finished_at >= $1)
  select count(*)::integer sent, (count(*) filter (where n > many / 10))::integer counted,
         extract(epoch from max(finished_at) - max(finished_at) filter (where n <= many / 10))::float8 seconds from done`

export function deliveryRows(runs: DeliveryRuns, calibration: Calibration): Row[] {
  const rates = (each: readonly Rate[]): number[] => each.map(({ perSecond }) => perSecond)
  const name = 'delivery of a backlog'
  const ours = rates(runs.ours)
  const row = (
    peer: string,
    other: readonly Rate[],
    rest: Pick<Row, 'must' | 'aim'>,
    invalid: string | undefined,
  ): Row => ({
    name,
    ours,
    unit: '/s',
    peer: { name: peer, figures: rates(other) },
    better: 'more',
    ...usagesOf(runs.ours, other),
    ...rest,
    ...(invalid !== undefined && { invalid }),
  })
  const unhealthy = (peer: 'rsa' | 'postfixSigned' | 'postfixUnsigned', other: readonly Rate[]): string | undefined =>
    other.length === 0 ? runs.noPostfix : whyUnhealthy(peer, rates(other), calibration)
  // Every message is signed: more than can be signed cannot have been delivered, so the clock was wrong.
  const impossible = median(ours) > median(rates(runs.rsa)) ? 'it is more than can be signed' : undefined
  const rows = [
    row('RSA limit', runs.rsa, { must: 0.45, aim: 0.6 }, impossible ?? unhealthy('rsa', runs.rsa)),
    row('Postfix + OpenDKIM', runs.signed, { must: 4, aim: 7 }, impossible ?? unhealthy('postfixSigned', runs.signed)),
  ]
  if (runs.noPostfix !== undefined) return rows
  return [
    ...rows,
    row('Postfix, unsigned', runs.unsigned, {}, unhealthy('postfixUnsigned', runs.unsigned)),
    row('Postfix, held mail released (no signature in the time)', runs.released, {}, undefined),
  ]
}
