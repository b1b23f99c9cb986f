// One schedule of the simulation: nodes that run the real code of delivery (worker, recorder, journal, mark, fence, transmitter) on a model of the
// database over a link that loses, delays and repeats nothing by itself, while chance kills and stops them at every step of the protocol.
// What must hold: at most one final dot of a message without a 4yz or 5yz to it; nothing lost; every move legal; unknown only what was armed
// and unanswered.
import { settingTable } from '../../src/config.ts'
import type * as deliverCode from '../../src/deliver/deliver.ts'
import type * as journalCode from '../../src/deliver/journal.ts'
import type * as markCode from '../../src/deliver/mark.ts'
import type * as fenceCode from '../../src/store/fence.ts'
import type * as outboundCode from '../../src/store/outbound.ts'
import type { Log } from '../../src/base/log.ts'
import type { Vault } from '../../src/base/secret.ts'
import type { FileHandle } from 'node:fs/promises'
import type { Ask, Db } from '../../src/store/database.ts'
import type { MessageId } from '../../src/domain/message.ts'
import type { NodeMark } from '../../src/store/fence.ts'
import type { Journal } from '../../src/deliver/journal.ts'
import type { Recorder } from '../../src/store/outbound.ts'
import type { Transmitter } from '../../src/deliver/transmit.ts'
import type { Chance } from '../world/random.ts'
import { Kernel, type Process } from './kernel.ts'
import { ModelDatabase, type Flaw, type Kept, type MessageRecord, type Row } from './model-database.ts'
import { makeNetwork, type Dot } from './network.ts'

/** The code under test, as it is or as a mutation left it. */
export interface Code {
  readonly deliver: typeof deliverCode
  readonly journal: typeof journalCode
  readonly mark: typeof markCode
  readonly outbound: typeof outboundCode
  readonly fence: typeof fenceCode
}

export interface Mutation {
  readonly recorder?: (real: Recorder) => Recorder
  readonly transmitter?: (real: Transmitter) => Transmitter
  readonly flaw?: Flaw
  /** In which it is not too rare to be seen. Left out: any. */
  readonly weather?: keyof typeof weathers
}

export interface Edges {
  /** Who answers a connection. */
  connect: () => object
}

export interface Schedule {
  readonly chance: Chance
  readonly code: Code
  readonly edges: Edges
  readonly mutation: Mutation
  readonly vault: Vault
  /** The sender's DKIM key. */
  readonly sealed: Buffer
  /** Hears what happens, for whoever replays one. */
  readonly say?: ((words: string) => void) | undefined
}

export interface Verdict {
  readonly breaches: readonly string[]
  readonly dots: number
  readonly kills: number
  readonly ends: Readonly<Record<string, number>>
}

const leaseMs = 2_000

interface Weather {
  /** How often a statement waits for a lock, and how long at most. */
  readonly locks: number
  readonly lockMs: number
  /** How often a statement is lost on its way, and how often its answer. */
  readonly lost: number
  readonly unheard: number
  readonly skewEveryMs: number
  readonly strikes: number
  readonly killEveryMs: number
  readonly awayEveryMs?: number
  /** How often a disk takes only a part of what is written, or none of it; a machine that dies loses what was not synced. */
  readonly diskRefuses?: number
  /** A standby that has not received everything takes over. */
  readonly failoverEveryMs?: number
}

/** What is more frequent in one schedule than in others: rare coincidences become likely somewhere. */
const weathers = {
  mixed: { locks: 0.05, lockMs: 1_500, lost: 0.01, unheard: 0.06, skewEveryMs: 12_000, strikes: 1, killEveryMs: 6_000 },
  locks: { locks: 0.4, lockMs: 1_500, lost: 0.01, unheard: 0.06, skewEveryMs: 12_000, strikes: 1, killEveryMs: 6_000 },
  unheard: {
    locks: 0.1,
    lockMs: 1_500,
    lost: 0.01,
    unheard: 0.3,
    skewEveryMs: 6_000,
    strikes: 0.5,
    killEveryMs: 12_000,
  },
  skew: { locks: 0.2, lockMs: 1_500, lost: 0.01, unheard: 0.03, skewEveryMs: 2_000, strikes: 0.3, killEveryMs: 20_000 },
  strikes: {
    locks: 0.05,
    lockMs: 1_500,
    lost: 0.01,
    unheard: 0.03,
    skewEveryMs: 20_000,
    strikes: 3,
    killEveryMs: 4_000,
  },
  // Where the database never seems to be away, reapers believe in every lease that ran out: in doubt about commits, and slowly.
  doubt: { locks: 0.1, lockMs: 1_500, lost: 0, unheard: 0.3, skewEveryMs: Infinity, strikes: 1, killEveryMs: 20_000 },
  slow: { locks: 0.5, lockMs: 500, lost: 0, unheard: 0, skewEveryMs: Infinity, strikes: 3, killEveryMs: 8_000 },
  disk: {
    locks: 0.05,
    lockMs: 500,
    lost: 0.01,
    unheard: 0.03,
    skewEveryMs: 20_000,
    strikes: 1,
    killEveryMs: 4_000,
    awayEveryMs: 3_000,
    diskRefuses: 0.2,
  },
  failover: {
    locks: 0.05,
    lockMs: 500,
    lost: 0.01,
    unheard: 0.03,
    skewEveryMs: 20_000,
    strikes: 3,
    killEveryMs: 8_000,
    failoverEveryMs: 5_000,
  },
} as const satisfies Record<string, Weather>
export const isWeather = (name: string): name is keyof typeof weathers => name in weathers

const troubledMs = 14_000
const peaceMs = 90_000

/** Two addresses stand behind it (simulate.ts). */
const relay = { kind: 'relay', host: 'relay.example', port: 25, implicitTls: false } as const

const silent: Log = {
  accepted: () => undefined,
  refused: () => undefined,
  attempted: () => undefined,
  reported: () => undefined,
  notified: () => undefined,
  started: () => undefined,
  stopped: () => undefined,
  warned: () => undefined,
  fault: () => undefined,
}

/** What of a node survives its death. */
interface Disk {
  mark: (NodeMark & { node: string }) | undefined
  journal: string
  /** What of it outlives the machine. */
  journalSynced: string
}

interface Node {
  readonly name: string
  readonly disk: Disk
  process: Process | undefined
  stop: () => Promise<void>
}

export async function runSchedule({ chance, code, edges, mutation, vault, sealed, say }: Schedule): Promise<Verdict> {
  const kernel = new Kernel(chance)
  const giveBack = kernel.takeOver()
  const breaches: string[] = []
  const weather: Weather = weathers[mutation.weather ?? chance.of(Object.keys(weathers) as (keyof typeof weathers)[])]
  let kills = 0
  let peace = false
  const tell = (who: Process | undefined, words: string) =>
    say?.(`${kernel.now.toFixed(1)} ms ${who?.name ?? ''} ${words}`)
  const log: Log = { ...silent, fault: (what, error) => tell(kernel.process, `${what}: ${String(error)}`) }
  const breach = (words: string) => void breaches.push(`${Math.round(kernel.now)} ms: ${words}`)
  const dots = new Map<string, Dot[]>()
  const dotsOf = (recipient: string): Dot[] => dots.get(recipient) ?? []
  const armedWhileSuppressed = new Set<string>()
  const nodes: Node[] = []
  let failovers = 0
  /** The replies that a journal has taken. */
  const journalled: { readonly id: MessageId; readonly epoch: number; readonly node: string }[] = []

  /** The database's clock is set forward now and then: leases run out before their holders can know. */
  let skewMs = 0
  const database = new ModelDatabase({
    now: () => kernel.now + skewMs,
    token: () => String(chance.below(2 ** 31) * 1_000 + chance.below(1_000)),
    flaw: mutation.flaw,
    sender: {
      domain: 'shop.example',
      returnPathHost: null,
      selector: 's',
      algorithm: 'rsa-sha256',
      sealed,
      since: new Date(0),
      retiredAt: null,
    },
  })
  database.onArmed = (row, record) => {
    tell(undefined, `${record.recipient} armed, epoch ${row.epoch}`)
    if (database.suppressed.has(record.recipient)) armedWhileSuppressed.add(row.id)
  }
  database.onMoved = (record: MessageRecord, from, row: Row | undefined) => {
    tell(undefined, `${record.recipient} ${from} -> ${record.status} ${record.events.at(-1)?.reason ?? ''}`)
    // Its worker knows of an arm that a failover has lost.
    if (failovers === 0 && record.status === 'delivery_unknown' && row !== undefined && row.armedEpoch === null)
      breach(`${record.id} became unknown from ${from} and was not armed`)
  }

  /** Chance likes moments at which somebody has just asked, been answered, or written. */
  const moment = (what: string, process: Process | undefined): void => {
    tell(process, `at ${what}`)
    if (peace || process === undefined || process.state !== 'running') return
    const node = nodes.find((each) => each.process === process)
    if (node === undefined) return
    const likely = weather.strikes * (what === 'dot' || what === 'arm' || what === 'reply' ? 0.06 : 0.008)
    if (chance.happens(likely)) stopAWhile(process)
    else if (chance.happens(likely / 2)) kill(node)
  }
  const stopAWhile = (process: Process): void => {
    tell(process, 'stopped')
    kernel.stop(process)
    kernel.after(chance.happens(0.7) ? leaseMs * (1 + chance.next() * 2) : chance.next() * leaseMs, () => {
      tell(process, 'goes on')
      kernel.goOn(process)
    })
  }
  const kill = (node: Node): void => {
    const { process } = node
    if (process === undefined || process.state === 'dead') return
    kills++
    tell(process, 'killed')
    kernel.kill(process)
    if (weather.diskRefuses !== undefined && chance.happens(0.5)) powerCut(node.disk)
    kernel.after(50 + chance.next() * 4_000, () => start(node))
  }
  /** Of what was not synced nothing is left, or all that was to come, or a part of it. */
  const powerCut = (disk: Disk): void => {
    const { journal, journalSynced } = disk
    const isMore = journal.startsWith(journalSynced)
    const more = Math.floor(chance.next() * (journal.length - journalSynced.length + 1))
    disk.journal = isMore ? journal.slice(0, journalSynced.length + more) : chance.of([journal, journalSynced])
    disk.journalSynced = disk.journal
  }

  const network = makeNetwork(
    kernel,
    {
      dotWritten: (dot) => {
        const before = dotsOf(dot.recipient)
        const open = before.filter((each) => !each.isRefused())
        if (open.length > 0)
          breach(`${dot.recipient}: a dot, though one of ${Math.round(open[0]?.writtenAt ?? 0)} ms was not refused`)
        const record = [...database.messages.values()].find(({ recipient }) => recipient === dot.recipient)
        if (record !== undefined && armedWhileSuppressed.has(record.id))
          breach(`${dot.recipient}: sent though suppressed at its arm`)
        // Whose dot it is: that of the epoch which stands armed now, in the row or in the record.
        dot.epoch =
          (record === undefined ? undefined : database.outbound.get(record.id)?.armedEpoch) ??
          record?.armedEpoch ??
          undefined
        dots.set(dot.recipient, [...before, dot])
      },
      accepted: (dot) => {
        if (dotsOf(dot.recipient).filter(({ accepted }) => accepted).length > 1)
          breach(`${dot.recipient} was accepted twice`)
      },
      moment,
    },
    { isPeaceful: () => peace },
  )
  edges.connect = network.connect

  const suppressOne = (): void => {
    const records = [...database.messages.values()]
    if (records.length > 0) database.suppressed.add(chance.of(records).recipient)
  }

  // The link to the database

  let awayUntil = 0
  /** Raised by each failover: what was asked of the server before is lost with it. */
  let server = 0
  const away = () => Object.assign(new Error('Connection terminated unexpectedly'))
  const execute = (run: () => object[], settle: (answer: object[] | Error) => void): void => {
    try {
      settle(run())
    } catch (error) {
      settle(error as Error)
    }
  }
  const ask = (process: Process, name: string, values: readonly unknown[], of = server): Promise<object[]> =>
    new Promise((resolve, reject) => {
      const answer = (what: object[] | Error) =>
        kernel.after(
          0.1 + chance.next() * 2,
          () => {
            moment(name, process)
            // What comes while it is stopped waits; here it goes on at once, or is dead.
            kernel.after(0, () => (what instanceof Error ? reject(what) : resolve(what)), process)
          },
          process,
        )
      moment(name, process)
      const lockMs = (): number => {
        const ms = chance.happens(peace ? 0 : weather.locks) ? chance.next() * weather.lockMs : chance.next()
        if (!peace && name === 'arm' && ms > 1 && chance.happens(0.5)) kernel.after(ms / 2, suppressOne)
        return ms
      }
      kernel.after(0.1 + chance.next() * 2, () => {
        if (kernel.now < awayUntil || of !== server) return answer(away())
        const fate = peace ? 1 : chance.next()
        if (fate < weather.lost) return answer(away()) // nothing happened
        const unheard =
          name === 'arm' || name === 'finish' ? weather.lost + weather.unheard : Math.min(0.03, 3 * weather.lost)
        const run = database.begin(name, values)
        if (fate < unheard) {
          // Nobody hears of it, and it happens now or later.
          answer(away())
          kernel.after(chance.happens(0.5) ? lockMs() : chance.next() * 20_000, () => {
            if (of === server) execute(run, () => undefined)
          })
        } else kernel.after(lockMs(), () => (of === server ? execute(run, answer) : answer(away())))
      })
    })
  const linkOf = (process: Process, greet?: (ask: Ask) => Promise<void>): Db => {
    let greeted = greet === undefined
    let greetedAt = 0
    let connectedTo = server
    const plain: Ask = ({ name }, values = []) => ask(process, name, values, connectedTo) as never
    const rows: Ask = async (statement, values) => {
      try {
        // No connection lives for long: a pause that waited for somebody who was forgotten meanwhile ends by that.
        if (failovers > 0 && kernel.now > greetedAt + 10_000) greeted = greet === undefined
        if (!greeted) {
          await greet?.(plain)
          greetedAt = kernel.now
        }
        greeted = true
        return await plain(statement, values)
      } catch (error) {
        greeted = greet === undefined
        connectedTo = server
        throw error
      }
    }
    return {
      rows,
      run: () => Promise.reject(new Error('statements have names')),
      transaction: () => Promise.reject(new Error('single statements only')),
      close: () => Promise.resolve(),
    }
  }
  const listeners = new Set<() => void>()
  /** Hears of stops, and of a new session. */
  database.stopsChanged = () => {
    for (const hear of listeners) hear()
  }

  // A node out of the real parts

  const start = (node: Node): void => {
    const process = kernel.spawn(node.name, () => {
      const writeMs = () => 0.1 + chance.next() * 3
      const mark = code.mark.makeMark(
        node.disk.mark,
        (record) =>
          new Promise((resolve, reject) => {
            kernel.after(
              writeMs(),
              () => {
                if (isRefused()) return reject(new Error('ENOSPC'))
                node.disk.mark = record
                resolve()
              },
              process,
            )
          }),
      )
      const journal = watched(openJournal(node, process, writeMs), node)
      const fence = code.deliver.makeFence({
        own: { mark, journal },
        beside: () => Promise.resolve([]),
        left: () => Promise.resolve([]),
        name: node.name,
        log,
        listen: (heard) => {
          let session = server
          const sessionWith = (which: number): Ask => {
            session = which
            return ({ name }, values = []) => ask(process, name, values, which) as never
          }
          let asking = sessionWith(server)
          const hear = () =>
            kernel.after(
              1 + chance.next() * 3,
              () => {
                if (session !== server) asking = sessionWith(server)
                heard(asking)
              },
              process,
            )
          listeners.add(hear)
          hear()
          return {
            stop: () => {
              listeners.delete(hear)
              return Promise.resolve()
            },
          }
        },
      })
      const queue = linkOf(process, fence.greet)
      const recorder = code.outbound.makeRecorder(linkOf(process, fence.greet), linkOf(process), mark)
      const transmitter = code.deliver.makeTransmitter({
        hostname: node.name,
        timeoutScale: 100,
        mxPort: 25,
        sandboxPort: () => 1,
        dnsServers: [],
        allowPrivateMx: true,
        timeScale: 600,
      })
      const worker = code.deliver.deliverer({
        db: queue,
        leaseDb: linkOf(process),
        recorder: mutation.recorder?.(recorder) ?? recorder,
        transmitter: mutation.transmitter?.(transmitter) ?? transmitter,
        gate: fence,
        journal,
        vault,
        log,
        leaseMs,
        timeScale: 1,
        retrySchedule: settingTable.POSTHORN_RETRY_SCHEDULE.fallback,
        patience: new AbortController().signal,
        route: relay,
        openRoute: () => relay,
        onDue: () => ({ stop: () => Promise.resolve() }),
      })
      void fence.start().then(() => worker.start())
      node.stop = async () => {
        await worker.stop()
        await fence.stop()
      }
    })
    node.process = process
  }

  const isRefused = (): boolean => weather.diskRefuses !== undefined && !peace && chance.happens(weather.diskRefuses)
  const watched = (journal: Journal, { name }: Node): Journal => ({
    get inherited() {
      return journal.inherited
    },
    get size() {
      return journal.size
    },
    keep: async (ending) => {
      await journal.keep(ending)
      journalled.push({ id: ending.id, epoch: ending.epoch, node: name })
      tell(kernel.process, `has ${ending.id} in its journal, as ${ending.status}`)
    },
    settle: (claim) => journal.settle(claim),
    close: () => journal.close(),
  })
  const openJournal = ({ disk }: Node, process: Process, writeMs: () => number) => {
    const { endings, good } = code.journal.readLines(disk.journal)
    disk.journal = disk.journalSynced = good
    const onDisk = (act: () => void): Promise<never> =>
      new Promise((resolve, reject) => {
        kernel.after(
          writeMs(),
          () => {
            if (isRefused()) return reject(new Error('ENOSPC'))
            act()
            resolve(undefined as never)
          },
          process,
        )
      })
    const handle: Pick<FileHandle, 'appendFile' | 'truncate' | 'datasync' | 'close'> = {
      appendFile: (text) => {
        const whole = text as string
        // Who dies meanwhile leaves a part of it, and a disk that is full takes no more.
        const part = Math.floor(chance.next() * whole.length)
        disk.journal += whole.slice(0, part)
        return onDisk(() => (disk.journal += whole.slice(part)))
      },
      truncate: (length = 0) => onDisk(() => (disk.journal = disk.journal.slice(0, length))),
      datasync: () => onDisk(() => (disk.journalSynced = disk.journal)),
      close: () => Promise.resolve(),
    }
    return code.journal.makeJournal(handle, endings, good.length)
  }

  // What happens

  const messages = 1 + chance.below(3)
  let admitted = 0
  for (let n = 0; n < 2 + chance.below(2); n++) {
    const node: Node = {
      name: `node${n}.test`,
      disk: { mark: undefined, journal: '', journalSynced: '' },
      process: undefined,
      stop: () => Promise.resolve(),
    }
    nodes.push(node)
    start(node)
  }
  for (let n = 0; n < messages; n++)
    kernel.after(50 + chance.next() * 2_000, () => {
      const domain = chance.of(['one.example', 'two.example'])
      admitted++
      database.admit(`00000000-0000-7000-8000-00000000000${n}` as MessageId, `m${n}@${domain}`, 3_600_000)
    })
  const sometimes = (everyMs: number, act: () => void): void => {
    const again = () => {
      if (peace) return
      act()
      kernel.after(everyMs * 2 * chance.next(), again)
    }
    kernel.after(everyMs * 2 * chance.next(), again)
  }
  let standby: Kept | undefined
  let decideSince = Infinity
  /** The times between tries pass as if they were short. */
  const hasten = () => {
    // On the standby, too: what it gives is as near then.
    for (const row of [...database.outbound.values(), ...(standby?.outbound.values() ?? [])])
      if (row.leaseUntil === null) row.dueAt = Math.min(row.dueAt, kernel.now + skewMs)
  }
  sometimes(1_200, hasten)
  sometimes(weather.killEveryMs, () => kill(chance.of(nodes)))
  sometimes(6_000, () => {
    const { process } = chance.of(nodes)
    if (process !== undefined) stopAWhile(process)
  })
  sometimes(weather.skewEveryMs, () => (skewMs += chance.next() * 2 * leaseMs))
  sometimes(weather.awayEveryMs ?? 20_000, () => (awayUntil = kernel.now + chance.next() * 6_000))
  sometimes(40_000, suppressOne)
  sometimes(30_000, () => {
    const begin = database.begin(chance.happens(0.6) ? 'drain' : 'undrain', [])
    begin()
  })
  sometimes(20_000, () => {
    const node = chance.of(nodes)
    const { process } = node
    if (process?.state !== 'running') return
    // A polite stop, and a new start when it has ended.
    kernel.after(
      0,
      () =>
        void node.stop().then(() =>
          kernel.after(10, () => {
            if (node.process !== process || process.state === 'dead') return
            kernel.kill(process)
            start(node)
          }),
        ),
      process,
    )
  })

  if (weather.failoverEveryMs !== undefined) {
    sometimes(1_500, () => {
      // Of a node of which it has never heard nobody can know.
      if (database.counters.size === nodes.length) standby = database.kept()
    })
    sometimes(weather.failoverEveryMs, () => {
      if (standby === undefined) return
      tell(undefined, `a standby takes over that is ${Math.round(kernel.now + skewMs - standby.at)} ms behind`)
      failovers++
      server++
      awayUntil = kernel.now + chance.next() * 2_000
      database.failOver(standby)
      decideSince = Math.min(decideSince, standby.at)
      standby = database.kept()
    })
    // Somebody decides, some time after delivery was stopped.
    const db = database.db()
    const decide = () => {
      if (database.stops.has('fence'))
        void code.fence
          .assumeSentSince(db, new Date(decideSince))
          .then((moved) => code.fence.liftFence(db).then(() => tell(undefined, `${moved} are assumed to be sent`)))
      kernel.after(chance.next() * 8_000, decide)
    }
    decide()
  }

  const isOver = () => breaches.length > 0
  const isQuiet = () => isOver() || (admitted === messages && database.outbound.size === 0)
  try {
    await kernel.run(isOver, troubledMs)
    peace = true
    awayUntil = 0
    database.begin('undrain', [])()
    for (const node of nodes) if (node.process?.state === 'stopped') kernel.goOn(node.process)
    const hurry = () => {
      hasten()
      kernel.after(1_000, hurry)
    }
    hurry()
    await kernel.run(isQuiet, troubledMs + peaceMs)
    // Statements that land late, replies that are still to be written down.
    await kernel.run(isOver, kernel.now + 21_000)
  } finally {
    giveBack()
  }

  for (const { id, recipient, status, events, sequence, armedEpoch } of database.messages.values()) {
    if (breaches.length > 0) break
    const its = dotsOf(recipient)
    const accepted = its.filter((dot) => dot.accepted).length
    const history = events
      .map(({ type, reason }) => `${type.slice(8)}${reason === null ? '' : ` (${reason})`}`)
      .join(', ')
    const wrong = (words: string) => breach(`${recipient} ${words}: ${history}`)
    if (events.length !== sequence) wrong('has events missing')
    if (status === 'sent' && accepted !== 1) wrong(`is sent and was accepted ${accepted} times`)
    if (status === 'failed' && accepted > 0) wrong('is failed and was accepted')
    if (database.outbound.has(id) || !['sent', 'failed', 'delivery_unknown'].includes(status)) wrong('has not ended')
    const inJournal = journalled.find((each) => each.id === id && each.epoch === armedEpoch)
    // What a standby has not received cannot be told apart from what nobody heard.
    if (failovers > 0) continue
    if (status === 'delivery_unknown' && inJournal !== undefined)
      wrong(`is unknown although ${inJournal.node} had the answer in its journal`)
    // A worker that lived on and heard the answer makes it known.
    const last = its.at(-1)
    if (
      status === 'delivery_unknown' &&
      last?.heard === true &&
      last.epoch === armedEpoch &&
      last.process?.state !== 'dead' &&
      !wasStopped(last, nodes)
    )
      wrong('is unknown although its living worker heard the answer')
  }
  if (database.stops.has('fence')) breach(`the fence stopped delivery: ${database.stops.get('fence')?.reason}`)
  const ends: Record<string, number> = {}
  for (const { status } of database.messages.values()) ends[status] = (ends[status] ?? 0) + 1
  return { breaches, dots: [...dots.values()].flat().length, kills, ends }
}

/** Its process ended politely, and another one took its place. */
function wasStopped({ process }: Dot, nodes: readonly Node[]): boolean {
  return !nodes.some((node) => node.process === process)
}
