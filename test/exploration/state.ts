// A state of everything that the promise hangs on: the database's rows, each node's memory and disk, what the network still holds, an
// operator in the middle of a command, and what the receiver has got. Copied before each step, and named by what can make a difference
// from there on: of times only their order.
import { hash } from 'node:crypto'
import type { MessageId } from '../../src/domain/message.ts'
import type { FinishRow, Kept, MessageRecord, ModelDatabase, Row } from '../simulation/model-database.ts'
import type { Budgets } from './scopes.ts'

/** How an attempt ends, and whether a reply to the dot says so. */
export interface End {
  readonly name: string
  readonly row: FinishRow
  readonly replied: boolean
  /** It waits because nobody was found: its node makes it due when somebody is there again. */
  readonly outOfReach?: boolean
}

/** What becomes of a dot: the receiver's reply, or the line is cut before it has arrived. */
export type Fate = 250 | 450 | 550 | 'cut'

export interface Claimed {
  readonly id: MessageId
  readonly epoch: number
  readonly token: string
}

export interface Flight extends Claimed {
  readonly attempt: number
  stage: 'claimed' | 'arming' | 'counted' | 'armed' | 'dotted' | 'ending' | 'telling'
  /** Of the arm. */
  counter: number
  fate: Fate | undefined
  end: End | undefined
  journalled: boolean
}

export interface Mark {
  readonly counter: number
  readonly era: number
}

interface Line {
  readonly end: End
  /** Of an earlier life. */
  inherited: boolean
}

export interface Node {
  readonly name: string
  /** How many identities it has had. */
  born: number
  alive: boolean
  /** It has compared itself with the database, and told what it inherited. */
  admitted: boolean
  /** The second half of a look. */
  look: 'tell' | 'forewarn' | undefined
  /** Asked to stop: it claims nothing more. */
  stopping: boolean
  /** To which server its listening session, its connections for claims and arms, and its word for others belong. */
  session: number
  greeted: number
  vouches: number
  /** The counter that it wants on its disk, and what stands there. */
  wanted: Mark
  known: Mark | undefined
  journal: Line[]
  flights: Flight[]
  putOff: Claimed[]
}

/** Asked, and not there yet: given up by its asker, unless one waits for it behind a lock. */
export interface Underway {
  readonly words: string
  readonly run: () => object[]
  readonly waiting?: Claimed & { readonly node: string }
  /** What a flawed statement, which looks before it has its locks, has seen. */
  readonly seen: string
}

/** `posthorn recover --assume-sent-since`, statement by statement. */
export interface Recovering {
  readonly since: number
  till: number
  step: 'till' | 'assume' | 'lift'
}

/** What outside the database is known of a message. */
export interface Truth {
  /** That a receiver has taken. */
  copies: number
  /** Dots that were written, and of which nobody has heard a 4yz or 5yz. */
  unproven: number
  armedSuppressed: boolean
  /** A person has said that it may be sent once more. */
  excused: boolean
  /** It was sent again in place of that one. */
  readonly follows: MessageId | undefined
  /** How often a person has said that another copy may come, by sending it again while nobody knew. */
  againUnknown: number
}

export type Tables = Omit<Kept, 'at'> & { readonly serverTimeline: number }

export interface State {
  now: number
  tables: Tables
  nodes: Node[]
  underway: Underway[]
  kept: { readonly at: number; readonly tables: Tables } | undefined
  server: number
  /** Since when a server that took over may lack something, and nobody has decided yet. */
  lacksSince: number | undefined
  failovers: number
  /** How often the database's clock was set back. */
  clocksSet: number
  lostDisks: number
  recovering: Recovering | undefined
  truths: Map<MessageId, Truth>
  left: Budgets
}

export function copyTables(of: Tables): Tables {
  return {
    messages: new Map([...of.messages].map(([id, record]) => [id, copyRecord(record)])),
    outbound: new Map([...of.outbound].map(([id, row]) => [id, { ...row }])),
    suppressed: new Set(of.suppressed),
    counters: new Map(of.counters),
    timelines: new Map(of.timelines),
    confirmed: new Map(of.confirmed),
    eras: new Map(of.eras),
    stops: new Map(of.stops),
    orphans: new Map(of.orphans),
    sentAgain: new Map(of.sentAgain),
    timeline: of.timeline,
    timelineSeen: of.timelineSeen,
    era: of.era,
    eraSeen: of.eraSeen,
    serverTimeline: of.serverTimeline,
  }
}

/** Without its history, which decides nothing. */
function copyRecord(record: MessageRecord): MessageRecord {
  const { attempts, answered, endedAt } = record
  return { ...record, events: [], attempts: new Map(attempts), answered: new Set(answered), endedAt: new Map(endedAt) }
}

export function tablesOf(database: ModelDatabase): Tables {
  const { messages, outbound, suppressed, counters, timelines, confirmed, eras, stops, orphans, sentAgain } = database
  const { timeline, timelineSeen, era, eraSeen, serverTimeline } = database
  const maps = { messages, outbound, suppressed, counters, timelines, confirmed, eras, stops, orphans, sentAgain }
  return { ...maps, timeline, timelineSeen, era, eraSeen, serverTimeline }
}

export function copyState(of: State): State {
  return {
    ...of,
    tables: copyTables(of.tables),
    nodes: of.nodes.map((node) => ({
      ...node,
      journal: node.journal.map((line) => ({ ...line })),
      flights: node.flights.map((flight) => ({ ...flight })),
      putOff: [...node.putOff],
    })),
    underway: [...of.underway],
    recovering: of.recovering && { ...of.recovering },
    truths: new Map([...of.truths].map(([id, truth]) => [id, { ...truth }])),
    left: { ...of.left },
  }
}

/** Two states with the same name have the same future: of times, counters and eras only the order counts, and of two nodes not which is which. */
export function nameOf(state: State): string {
  const { tables, kept, recovering, server, nodes, left } = state
  const all = kept === undefined ? [tables] : [tables, kept.tables]
  const when = orderOfTimes(state, all)
  const era = orderOfEras(nodes, all)
  let text = nameOfTables(tables, when, era)
  if (kept !== undefined) text += `|${when(kept.at)}${nameOfTables(kept.tables, when, era)}`
  text += nodes
    .map((node) => nameOfNode(node, server, all, era))
    .sort()
    .join('|')
  for (const { words, waiting, seen } of state.underway) text += `|${words}${waiting?.epoch}${waiting?.token}${seen}`
  if (state.lacksSince !== undefined) text += `|${when(state.lacksSince)}`
  if (recovering !== undefined) text += `|${recovering.step}${when(recovering.till)}${when(recovering.since)}`
  for (const { copies, unproven, armedSuppressed, excused, follows, againUnknown } of state.truths.values())
    text += `|${copies}${unproven}${armedSuppressed}${excused}${follows}${againUnknown}`
  text += `|${server - tables.serverTimeline} ${state.failovers > 0} ${state.lostDisks > 0}|`
  for (const what in left) text += left[what as keyof Budgets]
  return hash('md5', text, 'base64')
}

/** Mostly there has been one only. */
function orderOfEras(nodes: readonly Node[], all: readonly Tables[]): (value: number) => number {
  const eras = new Set<number>()
  for (const { era, eraSeen, eras: theirs } of all) {
    eras.add(era).add(eraSeen)
    for (const each of theirs.values()) eras.add(each)
  }
  for (const { wanted, known } of nodes) eras.add(wanted.era).add(known?.era ?? 0)
  return rankOf(eras)
}

const rankOf = (values: ReadonlySet<number>): ((value: number) => number) => {
  if (values.size < 2) return (value) => (values.has(value) ? 0 : -1)
  const sorted = [...values].sort((one, other) => one - other)
  return (value) => sorted.indexOf(value)
}

function orderOfTimes(state: State, all: readonly Tables[]): (at: number) => string {
  const { now, kept, recovering, lacksSince } = state
  const stopped = all.flatMap(({ stops }) => [...stops.values()].map(({ since }) => since))
  const cuts = [kept?.at, recovering?.till, recovering?.since, lacksSince, ...stopped].filter((at) => at !== undefined)
  const times = all.flatMap(({ outbound }) =>
    [...outbound.values()].flatMap(({ dueAt, leaseUntil, expiresAt }) => [dueAt, leaseUntil ?? 0, expiresAt]),
  )
  // What was written before the clock was set back lies on either side of everything.
  if (state.clocksSet > 0) {
    const written = all.flatMap(({ messages }) =>
      [...messages.values()].flatMap(({ createdAt, endedAt }) => [createdAt, ...endedAt.values()]),
    )
    const rank = rankOf(new Set([now, ...cuts, ...times, ...written]))
    return (at) => `${rank(at)}/${rank(now)}`
  }
  const coming = rankOf(new Set(times.filter((at) => at > now)))
  return (at) => {
    if (at > now) return `+${coming(at)}`
    let behind = 0
    for (const cut of cuts) behind = behind * 3 + (cut < at ? 2 : cut === at ? 1 : 0)
    return `-${behind}`
  }
}

function nameOfTables(tables: Tables, when: (at: number) => string, era: (value: number) => number): string {
  const { messages, outbound, suppressed, stops, orphans } = tables
  const records = [...messages.values()].map((record) => {
    const { id, status, armedEpoch, armedToken } = record
    const row = outbound.get(id)
    const head = `${id}${status}${armedEpoch},${armedToken},${tables.sentAgain.get(id)}`
    return row === undefined ? head : `${head}${when(record.createdAt)}${nameOfRow(row, record, when)}`
  })
  const stopped = [...stops].map(([kind, { reason }]) =>
    kind === 'fence' && reason === 'restored' ? 'restored' : kind,
  )
  return [
    ...records,
    [...suppressed].join(),
    stopped.sort().join(),
    [...orphans].map(([name, { status }]) => `${name}${status}`).join(),
    `${tables.timeline} ${tables.timelineSeen} ${era(tables.era)} ${era(tables.eraSeen)} ${tables.serverTimeline}`,
  ].join(';')
}

function nameOfRow(row: Row, record: MessageRecord, when: (at: number) => string): string {
  const { status, dueAt, expiresAt, epoch, token, leaseUntil, armedEpoch, attempts } = row
  const ended = record.endedAt.get(epoch)
  const waits = status === 'retrying' ? `${ended === undefined ? '' : when(ended)}${record.answered.has(epoch)}` : ''
  const lease = leaseUntil === null ? '' : when(leaseUntil)
  return `${status}${when(dueAt)}${when(expiresAt)},${epoch},${token},${lease},${armedEpoch},${attempts}${waits}`
}

/** With its rows, also those of its earlier identities. */
function nameOfNode(node: Node, server: number, all: readonly Tables[], era: (value: number) => number): string {
  const { name, born, alive, admitted, look, stopping, session, greeted, vouches, wanted, known } = node
  const identities = Array.from({ length: born + 1 }, (_, at) => `${name}${at}`)
  const counters = all.flatMap((tables) => identities.map((id) => tables.counters.get(id)))
  const flying = node.flights.map(({ counter }) => counter)
  const count = rankOf(
    new Set([0, wanted.counter, known?.counter ?? 0, ...flying, ...counters.map((each) => each ?? 0)]),
  )
  const rows = all.flatMap(({ counters: theirs, timelines, eras }) =>
    identities.map((id) => {
      const counter = theirs.get(id)
      return counter === undefined ? '' : `${count(counter)}@${timelines.get(id)}@${era(eras.get(id) ?? -1)}`
    }),
  )
  const claim = ({ id, epoch, token }: Claimed) => `${id},${epoch},${token}`
  return [
    rows.join(),
    `${alive}${admitted}${look}${stopping}${session === server}${greeted === server}${vouches === server}`,
    `${count(wanted.counter)},${era(wanted.era)},${known && count(known.counter)},${known && era(known.era)}`,
    node.journal.map(({ end, inherited }) => `${claim(end.row)}${end.name}${inherited}`).join(),
    node.flights
      .map((flight) => {
        const { stage, fate, end, journalled, attempt } = flight
        return `${claim(flight)}${stage}${fate}${end?.name}${journalled}${attempt}`
      })
      .join(),
    node.putOff.map(claim).join(),
  ].join(';')
}
