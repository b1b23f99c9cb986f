// Webhooks: how many a second from the outbox to the receiver and back into the log, against a bare pool with an HMAC; what they cost the mail
// that they tell about; and how soon an event is there when nothing else happens.
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { shares, watchCpu } from '../cpu.ts'
import type { Usage } from '../cpu.ts'
import type { Sender } from '../load.ts'
import type { Options } from '../options.ts'
import { startSink } from '../peers/sink.ts'
import { startWebReceiver } from '../peers/web-receiver.ts'
import type { WebReceiver } from '../peers/web-receiver.ts'
import { freePorts } from '../../src/base/free-ports.ts'
import { folderIn, run, start } from '../processes.ts'
import { installation, look, makeSenders } from '../service.ts'
import type { Installation } from '../service.ts'
import { usagesOf } from '../table.ts'
import type { Row } from '../table.ts'
import { accept, fill } from './delivery.ts'

interface Rate {
  readonly perSecond: number
  readonly usage: Usage
}
export interface WebhookRuns {
  readonly ours: readonly Rate[]
  readonly pool: readonly Rate[]
  readonly without: readonly Rate[]
  readonly with: readonly Rate[]
  /** Of each run. */
  readonly p50Ms: readonly number[]
  readonly p99Ms: readonly number[]
}

const peer = (name: string): string => fileURLToPath(new URL(`../peers/${name}.ts`, import.meta.url))
const open = { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' }

export async function runWebhooks(options: Options, temporary: string): Promise<WebhookRuns> {
  const runs = {
    ours: [] as Rate[],
    pool: [] as Rate[],
    without: [] as Rate[],
    with: [] as Rate[],
    p50Ms: [] as number[],
    p99Ms: [] as number[],
  }
  const folder = folderIn(temporary, 'webhooks')
  const receiver = await startWebReceiver(folder)
  const [latePort = 0] = await freePorts(1)
  const lateness = start({
    name: 'lateness',
    command: process.execPath,
    args: [peer('lateness'), `${latePort}`],
    folder,
  })
  await lateness.says(/^ready/m, 10_000)
  const mailSink = await startSink(temporary)
  const home = installation(folderIn(temporary, 'posthorn-webhooks'), open)
  const setup = await home.serve({ POSTHORN_ROLES: 'api' })
  // The last one's events go where it is told how late they are, and it sends when all else is still.
  const senders = await makeSenders(home, 9)
  const last = senders.pop()
  if (last === undefined) throw new Error('no sender was made')
  const names = senders.map((_, index) => `Bench ${index + 1}`)
  for (const name of names) await home.command('webhook', 'set', name, '--url', `http://127.0.0.1:${receiver.port}/`)
  await home.command('webhook', 'set', 'Bench 9', '--url', `http://127.0.0.1:${latePort}/`)
  await setup.stop()

  const note = (name: 'ours' | 'pool' | 'without' | 'with', pair: number, rate: Rate): void => {
    runs[name].push(rate)
    options.tell(`webhooks ${pair}/${options.pairs} ${name}: ${Math.round(rate.perSecond)}/s; ${shares(rate.usage)}`)
  }
  const route = { POSTHORN_ROUTE: `smtp://127.0.0.1:${mailSink.port}` }
  for (let pair = 1; pair <= options.pairs; pair++) {
    note('pool', pair, await flood(receiver, options.seconds))
    await fill(home, senders, options.backlog)
    note('ours', pair, await post(home, options.backlog, receiver))
    // What lies in the mail queue goes out unseen, so that the next runs begin empty.
    await mail(home, senders, { ...route, POSTHORN_ROLES: 'api,deliver,webhooks' }, 0, [])
    for (const on of [false, true]) {
      await switchAll(home, names, on)
      const count = Math.max(1, Math.floor(options.backlog / 2))
      const roles = { ...route, POSTHORN_ROLES: 'api,deliver,webhooks' }
      note(on ? 'with' : 'without', pair, await mail(home, senders, roles, count, [mailSink.pid, receiver.pid]))
    }
    const late = await idle(home, last, latePort, options.smoke ? 20 : 200)
    runs.p50Ms.push(late[Math.floor(late.length * 0.5)] ?? Number.NaN)
    runs.p99Ms.push(late[Math.floor(late.length * 0.99)] ?? Number.NaN)
    options.tell(`webhooks ${pair}/${options.pairs} idle: p50 ${runs.p50Ms.at(-1)} ms, p99 ${runs.p99Ms.at(-1)} ms`)
  }
  for (const each of [receiver, lateness, mailSink]) await each.stop()
  return runs
}

async function switchAll(home: Installation, names: readonly string[], on: boolean): Promise<void> {
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  for (const name of names) await home.command('webhook', on ? 'enable' : 'disable', name)
  await service.stop()
}

async function flood({ port, pid }: WebReceiver, seconds: number): Promise<Rate> {
  const usage = watchCpu([pid], 'node')
  const words = await run(process.execPath, [peer('bare-pool'), `${port}`, `${seconds}`], { ms: (seconds + 30) * 1000 })
  const [, rate] = /RESULT ([\d.]+)/.exec(words) ?? []
  if (rate === undefined) throw new Error(`the bare pool measured nothing: ${words}`)
  return { perSecond: Number(rate), usage: usage() }
}

/** Claim, sign, post, record: from the first result to the last, by the database's clock. */
async function post(home: Installation, count: number, receiver: WebReceiver): Promise<Rate> {
  const began = new Date()
  const before = await receiver.requests()
  const service = await home.serve({ POSTHORN_ROLES: 'webhooks' })
  const usage = watchCpu([...service.pids, receiver.pid])
  const database = await look(home.dataDir)
  try {
    await untilEmpty(database, 'webhook_queue', count)
    const { rows } = await database.query<{ many: number; seconds: number }>(
      `select count(*)::integer many, extract(epoch from max(ended_at) - min(ended_at))::float8 seconds
         from webhook_attempts where ended_at >= $1 and delivered`,
      [began],
    )
    const { many = 0, seconds = 0 } = rows[0] ?? {}
    const taken = (await receiver.requests()) - before - 1
    if (many !== count || taken < count) throw new Error(`${many} of ${count} events were posted, and ${taken} arrived`)
    return { perSecond: many / seconds, usage: usage() }
  } finally {
    await database.end()
    await service.stop()
  }
}

/** From the first message accepted to the last one delivered, and then until every webhook is out. */
async function mail(
  home: Installation,
  senders: readonly Sender[],
  settings: Readonly<Record<string, string>>,
  count: number,
  pids: readonly number[],
): Promise<Rate> {
  const began = new Date()
  const service = await home.serve(settings)
  const usage = watchCpu([...service.pids, ...pids])
  const database = await look(home.dataDir)
  try {
    if (count > 0) await accept(service.port, senders, count)
    await untilEmpty(database, 'outbound', count + 20_000)
    const used = usage()
    const { rows } = await database.query<{ many: number; seconds: number }>(
      `select count(*)::integer many, extract(epoch from max(finished_at) - min(created_at))::float8 seconds
         from messages where status = 'sent' and created_at >= $1`,
      [began],
    )
    const { many = 0, seconds = 1 } = rows[0] ?? {}
    if (many !== count) throw new Error(`${many} of ${count} messages were sent`)
    await untilEmpty(database, 'webhook_queue', 5 * count + 50_000)
    return { perSecond: many / (seconds || 1), usage: used }
  } finally {
    await database.end()
    await service.stop()
  }
}

async function untilEmpty(
  database: Awaited<ReturnType<typeof look>>,
  table: 'outbound' | 'webhook_queue',
  count: number,
): Promise<void> {
  const deadline = Date.now() + 60_000 + count * 5
  for (let left = 1; left > 0; await setTimeout(100)) {
    const { rows } = await database.query<{ left: number }>(`select count(*)::integer as left from ${table}`)
    left = rows[0]?.left ?? 0
    if (Date.now() > deadline) throw new Error(`${left} rows are still in ${table}`)
  }
}

/** One message at a time on a system that does nothing else: from the event to the receiver, sorted. */
async function idle(home: Installation, sender: Sender, port: number, count: number): Promise<number[]> {
  const service = await home.serve({ POSTHORN_ROUTE: 'sandbox' })
  const sink = new Pool(`http://127.0.0.1:${port}`)
  try {
    const take = async () => (await (await sink.request({ method: 'GET', path: '/' })).body.json()) as number[]
    await take()
    for (let sent = 0; sent < count; sent++) {
      await accept(service.port, [sender], 1)
      await setTimeout(25)
    }
    await setTimeout(500)
    return (await take()).sort((one, other) => one - other)
  } finally {
    await sink.close()
    await service.stop()
  }
}

export function webhookRows(runs: WebhookRuns): Row[] {
  const rates = (each: readonly Rate[]): number[] => each.map(({ perSecond }) => perSecond)
  return [
    {
      name: 'webhooks, durable',
      ours: rates(runs.ours),
      unit: '/s',
      peer: { name: 'bare undici pool with HMAC', figures: rates(runs.pool) },
      better: 'more',
      must: 0.25,
      aim: 0.4,
      ...usagesOf(runs.ours, runs.pool),
    },
    {
      name: 'mail end to end with webhooks for every event',
      ours: rates(runs.with),
      unit: '/s',
      peer: { name: 'without webhooks', figures: rates(runs.without) },
      better: 'more',
      must: 0.65,
      aim: 0.8,
      ...usagesOf(runs.with, runs.without),
    },
    { name: 'event to receiver, idle, p50', ours: runs.p50Ms, unit: 'ms', better: 'less', must: 25, aim: 10 },
    { name: 'event to receiver, idle, p99', ours: runs.p99Ms, unit: 'ms', better: 'less', must: 100, aim: 40 },
  ]
}
