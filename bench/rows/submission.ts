// SMTP submission: acceptance over kept sessions and with a connection for each mail, from SMTP in to SMTP out, and thousands of idle
// sessions. Postfix takes mail into its queue (held, so that nothing else runs) without a login, and over kept sessions in clear text, where ours has
// TLS: the comparison is in its favour. The row beside it has TLS on both sides.
import { connect, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { watchCpu } from '../cpu.ts'
import type { Options } from '../options.ts'
import { startPostfix, whyNoPostfix, type Postfix } from '../peers/postfix.ts'
import { startSink, type Sink } from '../peers/sink.ts'
import { folderIn } from '../processes.ts'
import { installation, look, makeSenders, type Installation, type Service } from '../service.ts'
import { comeIn, compileSmtpLoad, type Rate, type SmtpLoad, type SmtpTarget } from '../smtp-load.ts'
import { usagesOf, type Row } from '../table.ts'
import { memoryOf } from './idle.ts'

const names = ['kept', 'many', 'single', 'through'] as const
type Name = (typeof names)[number]
type PostfixName = Exclude<Name, 'many'> | 'keptTls' | 'unsigned'
export interface SubmissionRuns {
  readonly ours: Readonly<Record<Name, readonly Rate[]>>
  readonly postfix: Readonly<Record<PostfixName, readonly Rate[]>>
  readonly idleMegabytes: readonly number[]
  readonly idleServedMs: readonly number[]
  readonly noPostfix: string | undefined
}

const connections = 50
/** What we can take: we work in batches, and wait for our callers with fewer. Postfix is slower with more of them. */
const manyConnections = 200

export async function runSubmission(options: Options, temporary: string): Promise<SubmissionRuns> {
  const count = Math.min(options.backlog, 10_000)
  /** Ours is measured for longer, and after more that is not: a service runs for days, not for the seconds in which its code is compiled. */
  const steady = 3 * count
  const ours: Record<Name, Rate[]> = { kept: [], many: [], single: [], through: [] }
  const postfix: Record<PostfixName, Rate[]> = {
    kept: [],
    keptTls: [],
    single: [],
    through: [],
    unsigned: [],
  }
  const idleMegabytes: number[] = []
  const idleServedMs: number[] = []
  const noPostfix = whyNoPostfix()
  const sink = await startSink(folderIn(temporary, 'submission-sink'))
  const signing = noPostfix === undefined ? await startPostfix(folderIn(temporary, 's'), sink, true) : undefined
  const plain = noPostfix === undefined ? await startPostfix(folderIn(temporary, 'p'), sink, false) : undefined
  const home = installation(folderIn(temporary, 'posthorn-submission'))
  const login = await prepare(home)
  const smtpLoad = await compileSmtpLoad(folderIn(temporary, 'smtp-load'))

  for (let pair = 1; pair <= options.pairs; pair++) {
    const note = (side: string, to: Rate[], rate: Rate): void => {
      to.push(rate)
      options.tell(`submission ${pair}/${options.pairs} ${side}: ${Math.round(rate.perSecond)}/s`)
    }
    const service = await home.serve({ POSTHORN_ROLES: 'smtp' })
    const target = { port: service.smtpsPort, tls: true, login, from: login.sender, pids: service.pids }
    await smtpLoad(target, count, connections, true) // what is compiled while it runs: not measured
    note('ours, kept', ours.kept, await smtpLoad(target, steady, connections, true))
    if (plain !== undefined) note('Postfix, kept', postfix.kept, await accepts(smtpLoad, plain, false, count / 4, true))
    if (plain !== undefined)
      note('Postfix, kept, TLS', postfix.keptTls, await accepts(smtpLoad, plain, true, count / 4, true))
    note('ours, kept, many', ours.many, await smtpLoad(target, steady, manyConnections, true))
    await smtpLoad(target, count / 4, connections, false) // as above, for what connections cost
    note('ours, single', ours.single, await smtpLoad(target, count / 2, connections, false))
    if (plain !== undefined)
      note('Postfix, single', postfix.single, await accepts(smtpLoad, plain, true, count / 8, false))
    const idle = await holdIdle(service, target, options.smoke ? 200 : 5_000)
    idleMegabytes.push(idle.megabytes)
    idleServedMs.push(idle.servedMs)
    await service.stop()
    await clear(home)
    note('ours, through', ours.through, await through(smtpLoad, home, login, sink, count, steady))
    if (signing !== undefined) note('Postfix, signed', postfix.through, await signing.relay(options.postfixBacklog))
    if (plain !== undefined) note('Postfix, unsigned', postfix.unsigned, await plain.relay(options.postfixBacklog))
  }
  for (const each of [signing, plain, sink]) await each?.stop()
  return { ours, postfix, idleMegabytes, idleServedMs, noPostfix }
}

interface Login {
  readonly username: string
  readonly password: string
  readonly sender: string
}

async function prepare(home: Installation): Promise<Login> {
  const service = await home.serve({ POSTHORN_ROLES: 'smtp' })
  await makeSenders(home, 1)
  const made = await home.command('smtp-credential', 'create', 'Bench 1')
  await service.stop()
  return { username: String(made['username']), password: String(made['password']), sender: 'shop@w1.bench.example' }
}

async function accepts(
  smtpLoad: SmtpLoad,
  postfix: Postfix,
  tls: boolean,
  count: number,
  kept: boolean,
): Promise<Rate> {
  const port = tls ? postfix.tlsPort : postfix.holdingPort
  const target = { port, tls, from: 'shop@bench.example', pids: postfix.pids }
  const rate = await smtpLoad(target, count, connections, kept)
  await postfix.forget()
  return rate
}

/** What the acceptance rows left is not to be delivered. */
async function clear(home: Installation): Promise<void> {
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  const database = await look(home.dataDir)
  await database.query('truncate outbound')
  await database.end()
  await service.stop()
}

/** From the first mail in until the queue is empty, after `first` mails that are not measured. */
async function through(
  smtpLoad: SmtpLoad,
  home: Installation,
  login: Login,
  sink: Sink,
  first: number,
  count: number,
): Promise<Rate> {
  const settings = { POSTHORN_ROLES: 'smtp,deliver', POSTHORN_ROUTE: `smtp://127.0.0.1:${sink.port}` }
  const service = await home.serve(settings)
  const target = { port: service.smtpsPort, tls: true, login, from: login.sender, pids: service.pids }
  const database = await look(home.dataDir)
  const send = async (many: number): Promise<void> => {
    await smtpLoad(target, many, manyConnections, true)
    for (let left = 1; left > 0; await setTimeout(50)) {
      const { rows } = await database.query<{ left: number }>('select count(*)::integer as left from outbound')
      left = rows[0]?.left ?? 0
    }
  }
  await send(first)
  const usage = watchCpu([...service.pids, sink.pid], 'smtp-load')
  const began = performance.now()
  await send(count)
  const rate = { perSecond: count / ((performance.now() - began) / 1000), usage: usage() }
  await database.end()
  await service.stop()
  return rate
}

/** Sessions that have been greeted and say nothing; then one more client, until it could send. */
async function holdIdle(service: Service, target: SmtpTarget, count: number) {
  const sockets: Socket[] = []
  for (let at = 0; at < count; at += 100)
    sockets.push(...(await Promise.all(Array.from({ length: 100 }, () => greeted(service.smtpPort)))))
  const megabytes = memoryOf(service.pids)
  const servedMs = await comeIn(target)
  for (const socket of sockets) socket.destroy()
  return { megabytes, servedMs }
}

function greeted(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => socket.write('EHLO idle.example\r\n', () => resolve(socket))).once('error', reject)
  })
}

export function submissionRows({ ours, postfix, idleMegabytes, idleServedMs, noPostfix }: SubmissionRuns): Row[] {
  const rates = (each: readonly Rate[]): number[] => each.map(({ perSecond }) => perSecond)
  const row = (
    name: string,
    mine: readonly Rate[],
    peer: string,
    other: readonly Rate[],
    must?: number,
    aim?: number,
  ): Row => ({
    name,
    ours: rates(mine),
    unit: '/s',
    peer: { name: peer, figures: rates(other) },
    better: 'more',
    ...(must !== undefined && aim !== undefined && { must, aim }),
    ...usagesOf(mine, other),
    ...(noPostfix !== undefined && { invalid: noPostfix }),
  })
  return [
    row('SMTP acceptance, kept sessions', ours.kept, 'Postfix into its queue', postfix.kept, 5, 8),
    row('the same', ours.kept, 'Postfix over TLS, as ours is', postfix.keptTls),
    row(`the same with ${manyConnections} sessions of ours`, ours.many, 'Postfix into its queue', postfix.kept),
    row('SMTP acceptance, a TLS connection each', ours.single, 'Postfix into its queue', postfix.single, 2, 4),
    row('SMTP in to SMTP out, signed', ours.through, 'Postfix + OpenDKIM', postfix.through, 4, 7),
    row('SMTP in to SMTP out, signed', ours.through, 'Postfix, unsigned', postfix.unsigned, 3, 5),
    {
      name: 'memory with 5,000 idle SMTP sessions',
      ours: idleMegabytes,
      unit: 'MB',
      better: 'less',
      must: 300,
      aim: 150,
    },
    {
      name: 'a new client beside them is served in',
      ours: idleServedMs,
      unit: 'ms',
      better: 'less',
      must: 200,
      aim: 50,
    },
  ]
}
