// The queue at size, and fairness: what a claim and a delivery cost with a million messages waiting, how long one message of somebody else waits
// behind a backlog, what arming costs, and what a killed worker costs. Queues are filled by SQL: acceptance has rows of its own.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import { startDnsServer } from '../../test/world/dns-server.ts'
import type { DnsServer } from '../../test/world/dns-server.ts'
import { installationKeys } from '../../src/base/installation-key.ts'
import { claimDue } from '../../src/store/claim.ts'
import type { Db } from '../../src/store/database.ts'
import { leastId } from '../../src/store/message-id.ts'
import type { Sender } from '../load.ts'
import type { Options } from '../options.ts'
import { startSink } from '../peers/sink.ts'
import type { Sink } from '../peers/sink.ts'
import { folderIn } from '../processes.ts'
import { installation, look, makeSenders } from '../service.ts'
import type { Installation, Service } from '../service.ts'
import { median } from '../table.ts'
import type { Row } from '../table.ts'

export interface QueueRuns {
  readonly claimsSmall: number[]
  readonly claimsLarge: number[]
  readonly rateSmall: number[]
  readonly rateLarge: number[]
  readonly armed: number[]
  readonly unarmed: number[]
  readonly noArming: string | undefined
  /** Milliseconds to the first attempt. */
  readonly behind: number[]
  readonly behindStalled: number[]
  readonly latency: number[]
  readonly afterKillSeconds: number[]
}

interface Sizes {
  readonly large: number
  readonly backlog: number
  readonly fair: number
  readonly seconds: number
  readonly probes: number
}
const leaseSeconds = 10

export async function runQueue(options: Options, temporary: string): Promise<QueueRuns> {
  const sizes: Sizes = options.smoke
    ? { large: 5_000, backlog: 300, fair: 1_000, seconds: 2, probes: 5 }
    : { large: 1_000_000, backlog: Math.min(options.backlog, 20_000), fair: 100_000, seconds: 15, probes: 60 }
  const runs = {
    claimsSmall: [] as number[],
    claimsLarge: [] as number[],
    rateSmall: [] as number[],
    rateLarge: [] as number[],
    armed: [] as number[],
    unarmed: [] as number[],
    behind: [] as number[],
    behindStalled: [] as number[],
    latency: [] as number[],
    afterKillSeconds: [] as number[],
  }
  const sink = await startSink(temporary)
  const home = installation(folderIn(temporary, 'posthorn-queue'))
  // One PostgreSQL for all of it, held by a service that does not deliver: filled with a million messages, it takes a minute to stop.
  const holder = await home.serve({ POSTHORN_ROLES: 'api' })
  const senders = await makeSenders(home, 2)
  const client = await look(home.dataDir)
  const station: Station = {
    client,
    senders,
    another: () => look(home.dataDir),
    serve: (settings) => home.serve({ ...besides(home, client), ...settings }),
  }
  const relay = { POSTHORN_ROUTE: `smtp://127.0.0.1:${sink.port}` }
  const pairs = Math.min(options.pairs, 3)

  options.tell('queue: latency on an idle system')
  runs.latency.push(...(await latencies(station, sizes.probes)))
  options.tell(`queue: ${sizes.large} messages are put into it`)
  await fill(station, 0, sizes.large)
  for (let pair = 1; pair <= pairs; pair++) {
    options.tell(`queue: pair ${pair}/${pairs}: long and short`)
    runs.claimsLarge.push(await claimMs(station))
    runs.rateLarge.push(await deliverFor(station, relay, sizes))
    await park(station)
    await fill(station, 0, 1_000)
    runs.claimsSmall.push(await claimMs(station))
    await fill(station, 0, sizes.backlog)
    runs.rateSmall.push(await deliverFor(station, relay, sizes))
    if (pair < pairs) await unpark(station)
  }
  options.tell('queue: with and without arming')
  const noArming = await measureArming(station, relay, sizes, 2 * pairs + 1, runs) // its must is a twentieth: more than the noise of a pair
  options.tell('queue: one message behind a backlog')
  runs.behind.push(...(await waits(station, sink, sizes, false)))
  options.tell('queue: the same while half of all destinations stall')
  runs.behindStalled.push(...(await waits(station, sink, sizes, true)))
  options.tell('queue: a worker is killed')
  for (let turn = 0; turn < pairs; turn++) runs.afterKillSeconds.push(await afterKill(station, sink))
  await client.end()
  await holder.stop()
  await sink.stop()
  return { ...runs, noArming }
}

/** The installation with its database open, for as many services beside the one that holds it as a row needs. */
interface Station {
  readonly client: Client
  readonly senders: readonly Sender[]
  /** A session of its own, with settings of its own. */
  readonly another: () => Promise<Client>
  readonly serve: (settings: Readonly<Record<string, string>>) => Promise<Service>
}

/** How another service reaches the database of a running one, under the same key. */
function besides(home: Installation, client: Client): Readonly<Record<string, string>> {
  const [key = ''] = installationKeys({
    POSTHORN_DATA_DIR: home.dataDir,
    POSTHORN_SECRET_KEY: undefined,
    POSTHORN_SECRET_KEYS_ACCEPTED: [],
  }).all()
  const { host, port, user, password, database } = client as unknown as Record<string, string | number>
  return {
    POSTHORN_SECRET_KEY: key,
    DATABASE_URL: `postgres://${user}:${encodeURIComponent(String(password))}@/${database}?host=${encodeURIComponent(String(host))}&port=${port}`,
  }
}

/** Empties the queue and fills it with `count` messages of one workspace for 20 domains, as admissions would leave them: ids in the order of the rows. */
async function fill({ client }: Station, sender: number, count: number): Promise<void> {
  await client.query('truncate outbound')
  for (let done = 0; done < count; done += 50_000)
    await client.query(insert, [sender, done, Math.min(50_000, count - done)])
  await settle(client)
}

/** Nothing that filling has left behind happens while something is measured. */
async function settle(client: Client): Promise<void> {
  await client.query('vacuum analyze outbound')
  await client.query('checkpoint')
}

/** Puts the queue aside; their messages stay where they are, so that only the queue's length differs. */
async function park({ client }: Station): Promise<void> {
  await client.query('drop table if exists parked')
  await client.query('create unlogged table parked as select * from outbound where lease_until is null')
  await client.query('truncate outbound')
}

async function unpark({ client }: Station): Promise<void> {
  await client.query('truncate outbound')
  await client.query('insert into outbound select * from parked')
  await settle(client)
}

const insert = `
  with box as (select * from mailboxes order by id offset $1 limit 1),
  made as materialized (
    select overlay(gen_random_uuid()::text placing left(uuid_floor(now() + n / 4096 * interval '1 millisecond')::text, 15)
                   || lpad(to_hex(n % 4096), 3, '0') from 1 for 18)::uuid id, box.*, n,
           'u' || n || '@d' || n % 20 || '.example.com' recipient
      from box, generate_series($2::integer + 1, $2::integer + $3::integer) n),
  record as (
    insert into messages (workspace_id, id, mailbox_id, source, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
    select workspace_id, made.id, (select id from box), 'rest', 1, address, recipient, recipient, 'Order ' || n, 'bench.example', now() from made),
  content as (
    insert into contents (workspace_id, message_id, body_text)
    select workspace_id, made.id, repeat('The quick brown fox jumps over the lazy dog. ', 20) from made),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
    select workspace_id, made.id, 1, 'message.queued', 'queued', 0, now() from made)
  insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
  select made.id, workspace_id, (select id from box), 'd' || n % 20 || '.example.com', now(), now() + interval '1 day' from made`
  // Two columns are named id: the message's is the first.
  .replace('box.*', 'box.workspace_id, box.address')

/** One claim of 200, taken back, many times: milliseconds of the one in the middle. */
async function claimMs({ another }: Station): Promise<number> {
  const client = await another()
  await client.query(
    'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off',
  )
  const db = {
    rows: async ({ name, text }: { name: string; text: string }, values: unknown[]) =>
      (await client.query({ name, text, values })).rows,
  } as unknown as Db
  const took: number[] = []
  for (let turn = 0; turn < 40; turn++) {
    await client.query('begin')
    const began = performance.now()
    await claimDue(db, {
      cursor: leastId,
      cursors: {},
      rooms: {},
      roomElse: 500,
      crowded: [],
      most: 200,
      leaseMs: 60_000,
      owner: '00000000-0000-4000-8000-000000000001',
    })
    took.push(performance.now() - began)
    await client.query('rollback')
  }
  await client.end()
  return median(took)
}

/** Messages a second, of the first `backlog` that are delivered, or of those of that time: both sides have the same beginning. */
async function deliverFor(
  { client, serve }: Station,
  settings: Readonly<Record<string, string>>,
  { seconds, backlog }: Sizes,
): Promise<number> {
  const { rows: clock } = await client.query<{ now: Date }>('select now()')
  const service = await serve({ POSTHORN_ROLES: 'deliver', ...settings })
  for (const until = Date.now() + seconds * 1000; Date.now() < until; await setTimeout(200)) {
    const { rows } = await client.query('select from outbound limit 1')
    if (rows.length === 0) break
  }
  await service.stop()
  const { rows } = await client.query<{ rate: number }>(
    `select count(*)::float8 / greatest(extract(epoch from max(finished_at) - min(finished_at)), 0.001)::float8 rate
       from (select finished_at from messages where status = 'sent' and finished_at >= $1 order by finished_at limit $2) first`,
    [clock[0]?.now, backlog],
  )
  return rows[0]?.rate ?? 0
}

interface ArmFunction {
  readonly name: string
  readonly arguments: string
  readonly result: string
  readonly text: string
}

/** With the arm as it is, and with one that says yes and writes nothing: what is missing then is its commit, and the mark on the disk. */
async function measureArming(
  station: Station,
  relay: Readonly<Record<string, string>>,
  sizes: Sizes,
  pairs: number,
  runs: Pick<QueueRuns, 'armed' | 'unarmed'>,
): Promise<string | undefined> {
  const { client } = station
  const { rows } = await client.query<ArmFunction>(
    `select proname name, pg_get_function_arguments(oid) arguments, pg_get_function_result(oid) result, pg_get_functiondef(oid) as text
       from pg_proc where proname ~ '^arm_[0-9]+$' order by substring(proname from '[0-9]+$')::integer desc limit 1`,
  )
  const [arm] = rows
  const idle = arm && armThatWritesNothing(arm)
  if (arm === undefined || idle === undefined) return 'the bench does not know the function that arms'
  try {
    for (let pair = 0; pair < pairs; pair++)
      for (const [text, rates] of [
        [arm.text, runs.armed],
        [idle, runs.unarmed],
      ] as const) {
        await client.query(text)
        await fill(station, 0, sizes.backlog)
        rates.push(await deliverFor(station, relay, sizes))
      }
  } finally {
    await client.query(arm.text)
  }
  return undefined
}

/** Of the same name and shape; undefined where the shape is one that this file was not written for. */
function armThatWritesNothing({ name, arguments: given, result }: ArmFunction): string | undefined {
  const answers = "'armed', 0"
  if (!given.startsWith('ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint'))
    return undefined
  if (result !== 'TABLE(id uuid, epoch integer, answer text, counter double precision)') return undefined
  return `create or replace function ${name}(${given}) returns ${result} language sql volatile as
    $$ select a.id, a.epoch, ${answers} from unnest(ids, epochs) as a (id, epoch) $$`
}

/** Milliseconds from queued to the first attempt of single messages, while another workspace has a backlog. */
async function waits(station: Station, sink: Sink, sizes: Sizes, stalled: boolean): Promise<number[]> {
  const { client, senders } = station
  await fill(station, 0, sizes.fair)
  const deaf = stalled ? await deafServer(sink.port) : undefined
  const dns = await dnsFor(stalled)
  const service = await station.serve({
    POSTHORN_ROLES: 'api,deliver',
    POSTHORN_ROUTE: 'mx',
    POSTHORN_MX_PORT: String(sink.port),
    POSTHORN_DNS_SERVERS: dns.address,
    POSTHORN_ALLOW_PRIVATE_MX: 'true',
  })
  try {
    const ids: string[] = []
    for (let probe = 0; probe < sizes.probes; probe++, await setTimeout(200))
      ids.push(await send(service.port, senders[1], `p${probe}@probe.example.com`))
    await setTimeout(3_000)
    const { rows } = await client.query<{ ms: number }>(
      `select coalesce(extract(epoch from min(occurred_at) filter (where type = 'message.sending') - min(occurred_at)) * 1000, 1e9)::float8 ms
         from events where message_id = any ($1::uuid[]) group by message_id`,
      [ids],
    )
    return rows.map(({ ms }) => ms)
  } finally {
    await service.stop()
    await dns.stop()
    deaf?.close()
  }
}

/** Half of the twenty domains lead to a server that takes connections and says nothing. */
async function dnsFor(stalled: boolean): Promise<DnsServer> {
  const domains = Array.from({ length: 20 }, (_, at) => [
    `d${at}.example.com`,
    stalled && at % 2 === 0 ? '127.0.0.2' : '127.0.0.1',
  ])
  return startDnsServer({
    ...Object.fromEntries(domains.map(([name, address]) => [name, { a: [address ?? ''], ttl: 3600 }])),
    'probe.example.com': { a: ['127.0.0.1'], ttl: 3600 },
  })
}

async function deafServer(port: number): Promise<Server> {
  const server = createServer((socket) => void socket.on('error', () => undefined).resume())
  server.listen(port, '127.0.0.2')
  await once(server, 'listening')
  return server
}

async function send(port: number, sender: Sender | undefined, recipient: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/api/v1/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${sender?.key ?? ''}`, 'content-type': 'application/json' },
    body: JSON.stringify({ mailboxId: sender?.mailboxId, recipient, subject: 'Probe', bodyText: 'Hello' }),
  })
  if (answer.status !== 202) throw new Error(`a probe was refused with ${answer.status}`)
  return ((await answer.json()) as { id: string }).id
}

/** Milliseconds from the 202 in our hands to the 250 out of the receiver's, one message at a time, nothing else going on. */
async function latencies({ senders, serve }: Station, probes: number): Promise<number[]> {
  let taken: (at: number) => void = () => undefined
  const receiver = createServer((socket) => {
    let content = false
    socket.on('error', () => undefined)
    socket.write('220 bench\r\n')
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      if (content) {
        if (!text.endsWith('\r\n.\r\n') && text !== '.\r\n') return
        content = false
        socket.write('250 ok\r\n')
        return taken(performance.now())
      }
      for (const line of text.split('\r\n').slice(0, -1)) {
        content ||= line === 'DATA'
        socket.write(line === 'DATA' ? '354 go on\r\n' : '250 ok\r\n')
      }
    })
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const { port } = receiver.address() as AddressInfo
  const service = await serve({ POSTHORN_ROLES: 'api,deliver', POSTHORN_ROUTE: `smtp://127.0.0.1:${port}` })
  try {
    const took: number[] = []
    for (let probe = 0; probe < probes + 5; probe++, await setTimeout(100)) {
      const at = new Promise<number>((resolve) => (taken = resolve))
      await send(service.port, senders[1], `l${probe}@d0.example.com`)
      const answered = performance.now()
      took.push(Math.max(0, (await at) - answered))
    }
    return took.slice(5)
  } finally {
    await service.stop()
    receiver.close()
  }
}

/** Seconds from kill -9 of a worker that holds unarmed messages until another has sent them all. */
async function afterKill({ client, serve }: Station, sink: Sink): Promise<number> {
  const deaf = createServer((socket) => void socket.on('error', () => undefined).resume()).listen(0, '127.0.0.1')
  await once(deaf, 'listening')
  await client.query('truncate outbound')
  await client.query(insert, [0, 0, 20])
  const shared = { POSTHORN_ROLES: 'deliver', POSTHORN_LEASE_SECONDS: String(leaseSeconds) }
  const count = async (what: string): Promise<number> =>
    (await client.query<{ many: number }>(`select count(*)::integer many from outbound ${what}`)).rows[0]?.many ?? 0
  const holder = await serve({
    ...shared,
    POSTHORN_ROUTE: `smtp://127.0.0.1:${(deaf.address() as AddressInfo).port}`,
  })
  while ((await count(`where status = 'sending'`)) === 0) await setTimeout(20)
  const other = await serve({ ...shared, POSTHORN_ROUTE: `smtp://127.0.0.1:${sink.port}` })
  while ((await count(`where status <> 'sending'`)) > 0) await setTimeout(20)
  for (const pid of holder.pids) process.kill(pid, 'SIGKILL')
  const began = performance.now()
  while ((await count('')) > 0 && performance.now() - began < 120_000) await setTimeout(20)
  const seconds = (performance.now() - began) / 1000
  await other.stop()
  await holder.stop()
  deaf.close()
  return seconds
}

const percentile = (figures: readonly number[], part: number): number =>
  [...figures].sort((one, other) => one - other)[Math.min(figures.length - 1, Math.floor(figures.length * part))] ??
  Number.NaN

export function queueRows(runs: QueueRuns, smoke: boolean): Row[] {
  const large = smoke ? 'many' : '1,000,000'
  const inverse = (figures: readonly number[]): number[] => figures.map((ms) => 1000 / ms)
  const alone = (name: string, unit: string, figure: number, must: number, aim: number): Row => ({
    name,
    unit,
    ours: [figure],
    better: 'less',
    must,
    aim,
  })
  return [
    {
      name: `claims with ${large} queued`,
      ours: inverse(runs.claimsLarge),
      unit: '/s',
      peer: { name: 'with 1,000', figures: inverse(runs.claimsSmall) },
      better: 'more',
      must: 0.9,
      aim: 0.97,
    },
    {
      name: `delivery with ${large} queued`,
      ours: runs.rateLarge,
      unit: '/s',
      peer: { name: 'of a short queue', figures: runs.rateSmall },
      better: 'more',
      must: 0.9,
      aim: 0.97,
    },
    {
      name: 'delivery with arming',
      ours: runs.armed,
      unit: '/s',
      peer: { name: 'an arm that writes nothing', figures: runs.unarmed },
      better: 'more',
      must: 0.95,
      aim: 0.98,
      ...(runs.noArming !== undefined && { invalid: runs.noArming }),
    },
    alone('first attempt behind a backlog, p95', 'ms', percentile(runs.behind, 0.95), 2_000, 300),
    alone('the same while half of all destinations stall, p95', 'ms', percentile(runs.behindStalled, 0.95), 2_000, 500),
    alone('from 202 to the 250, idle, p50', 'ms', percentile(runs.latency, 0.5), 20, 8),
    alone('from 202 to the 250, idle, p99', 'ms', percentile(runs.latency, 0.99), 60, 25),
    alone('sent by another after kill -9', 's', median(runs.afterKillSeconds), leaseSeconds + 5, leaseSeconds + 1),
  ]
}
