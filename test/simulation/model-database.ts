// The queue's functions in memory, for the simulation: claim, heartbeat, arm_5, finish_2 with handed_back_1 and late_proof_1, reap_3, replay_3, check_in_1, and what an operator
// decides after a restore (assume_sent_2, lift_fence_1), as far as delivery can tell the difference. That they mean the same as PostgreSQL's is what conformance.test.ts checks. Each flaw is
// a way to write such a function wrongly that the model checker named; the simulation must see each fail.
import type { MessageId, MessageStatus, WorkspaceId } from '../../src/domain/message.ts'
import { mayBecome } from '../../src/domain/moves.ts'
import type { Ask, Db, Statement } from '../../src/store/database.ts'

export type Flaw =
  | 'reaper without conditions'
  | 'finish without epoch'
  | 'late proof without epoch'
  | 'suppression before lock'
  | 'old row revived'
  | 'arm without epoch'
  | 'arm although armed'
  | 'no pause after a failover'
  | 'what is under way is not assumed to be sent'
  | 'what may have gone early is spared'
  | 'a failure counts though nobody has decided'
  | 'cancelled behind a failover that nobody has noticed'
  | 'cancelled though somebody has it'
  | 'sent again without its key'
  | 'a stop is as old as its clock says'

/** For an hour, which no schedule has. */
const unarmedForgottenMs = 30_000

/** All messages are of one. */
export const simulatedWorkspace = '00000000-0000-7000-8000-0000000000ff' as WorkspaceId

export interface Row {
  id: MessageId
  destination: string
  status: 'queued' | 'retrying' | 'sending'
  dueAt: number
  readonly expiresAt: number
  epoch: number
  token: string
  leaseUntil: number | null
  leaseOwner: string | null
  armedEpoch: number | null
  attempts: number
  evidence: string | null
}

export interface MessageRecord {
  readonly id: MessageId
  readonly recipient: string
  readonly createdAt: number
  status: MessageStatus
  sequence: number
  armedEpoch: number | null
  armedToken: string | null
  readonly events: { readonly sequence: number; readonly type: string; readonly reason: string | null }[]
  readonly attempts: Map<number, string>
  /** The epochs of attempts to which somebody has said something. */
  readonly answered: Set<number>
  /** When which of them ended. */
  readonly endedAt: Map<number, number>
}

/** What a standby takes over, and what a backup puts back. */
export interface Kept {
  readonly at: number
  readonly messages: Map<string, MessageRecord>
  readonly outbound: Map<string, Row>
  readonly suppressed: Set<string>
  readonly counters: Map<string, number>
  readonly timelines: Map<string, number>
  readonly confirmed: Map<string, number>
  readonly eras: Map<string, number>
  readonly stops: Map<string, Stop>
  readonly orphans: Map<string, FinishRow>
  readonly sentAgain: Map<MessageId, MessageId>
  readonly timeline: number | undefined
  readonly timelineSeen: number | undefined
  readonly era: number
  readonly eraSeen: number
}

export interface Stop {
  readonly reason: string
  readonly since: number
}

export interface FinishRow {
  readonly id: MessageId
  readonly epoch: number
  readonly token: string
  readonly status: 'sent' | 'failed' | 'retrying' | 'delivery_unknown'
  readonly delay_ms?: number
  readonly evidence?: string
  readonly uses_try: boolean
  readonly outcome: string
  /** The attempt's record. */
  readonly facts: { readonly phase?: string; readonly trouble?: string; readonly smtp?: { readonly code?: number } }
  readonly event: { readonly reason?: string }
  readonly report?: object
  readonly report_event?: string
  readonly suppress?: boolean
  readonly deferred_by?: readonly object[]
}

/** As the function `proves_reply` of migration 0002. */
function provesReply({ status, evidence, facts: { phase, trouble, smtp } }: FinishRow): boolean {
  if (phase !== 'eod' || trouble !== undefined) return false
  const kind = Math.floor((smtp?.code ?? 0) / 100)
  if (evidence === undefined) return (status === 'sent' && kind === 2) || (status === 'failed' && kind === 5)
  return evidence === 'eod_4xx' && kind === 4 && (status === 'retrying' || status === 'failed')
}

/** As the function `handed_back_1`: what no reply to the dot proves was not decided by this attempt. */
function handedBack(ending: FinishRow): FinishRow {
  if (ending.status !== 'failed' || provesReply(ending)) return ending
  const { report: _, report_event: __, deferred_by: ___, ...rest } = ending
  return {
    ...rest,
    status: 'retrying',
    delay_ms: 0,
    uses_try: false,
    outcome: 'retry',
    event: { reason: 'shutdown' },
    suppress: false,
  }
}

/** The server's own words: the statement left nothing behind. */
class Refused extends Error {
  readonly code = '23514'
}

export interface ModelOptions {
  readonly now: () => number
  /** A claim's token. */
  readonly token: () => string
  readonly flaw?: Flaw | undefined
  /** A node that knows this database delivers from it, and says so by its session. Left out: always. */
  readonly isVouchedFor?: () => boolean
  /** The row of a sender, for what the worker prepares with. */
  readonly sender: Readonly<Record<string, unknown>>
}

type ClaimValues = [
  string,
  number,
  string[],
  number,
  string,
  number,
  string,
  number,
  number,
  string,
  Date | '-infinity',
]

/** What a statement does when its locks are granted. */
type Execute = () => object[]

export class ModelDatabase {
  messages = new Map<string, MessageRecord>()
  outbound = new Map<string, Row>()
  suppressed = new Set<string>()
  counters = new Map<string, number>()
  /** On which timeline each node was last found right. */
  timelines = new Map<string, number>()
  /** When it last was. */
  confirmed = new Map<string, number>()
  /** In which era it was. */
  eras = new Map<string, number>()
  stops = new Map<string, Stop>()
  orphans = new Map<string, FinishRow>()
  /** As which other message. */
  sentAgain = new Map<MessageId, MessageId>()
  /** On which all of them were. */
  timeline: number | undefined
  /** On which somebody has compared himself with it. */
  timelineSeen: number | undefined
  era = 0
  eraSeen = 0
  /** On which the server writes. */
  serverTimeline = 1
  /** Called after a change of `stops`. */
  stopsChanged: () => void = () => undefined
  /** Called when a row becomes armed. */
  onArmed: (row: Row, record: MessageRecord) => void = () => undefined
  onMoved: (record: MessageRecord, from: MessageStatus, row: Row | undefined) => void = () => undefined
  readonly #options: ModelOptions

  constructor(options: ModelOptions) {
    this.#options = options
  }

  /** All that is committed by now. */
  kept(): Kept {
    const { messages, outbound, suppressed, counters, timelines, confirmed, eras, stops, orphans, sentAgain } = this
    const tables = { messages, outbound, suppressed, counters, timelines, confirmed, eras, stops, orphans, sentAgain }
    const { timeline, timelineSeen, era, eraSeen } = this
    return { ...structuredClone(tables), at: this.#options.now(), timeline, timelineSeen, era, eraSeen }
  }

  /** Another server goes on from there. */
  failOver(from: Kept): void {
    const { at: _, ...all } = from
    Object.assign(this, structuredClone(all))
    this.serverTimeline++
    this.stopsChanged()
  }

  admit(id: MessageId, recipient: string, ageMs: number): void {
    const now = this.#options.now()
    const destination = recipient.slice(recipient.indexOf('@') + 1)
    this.messages.set(id, {
      id,
      recipient,
      createdAt: now,
      status: 'queued',
      sequence: 1,
      armedEpoch: null,
      armedToken: null,
      events: [{ sequence: 1, type: 'message.queued', reason: null }],
      attempts: new Map(),
      answered: new Set(),
      endedAt: new Map(),
    })
    this.outbound.set(id, {
      id,
      destination,
      status: 'queued',
      dueAt: now,
      expiresAt: now + ageMs,
      epoch: 0,
      token: '',
      leaseUntil: null,
      leaseOwner: null,
      armedEpoch: null,
      attempts: 0,
      evidence: null,
    })
  }

  /** As `admit_sent_again`, with the key of the admission: there is one follower, whoever asks, and how often. False: it is refused. */
  sendAgain(id: MessageId, as: MessageId, ageMs: number): boolean {
    const { recipient, status } = this.#record(id)
    const hasFollower = this.sentAgain.has(id) && this.#options.flaw !== 'sent again without its key'
    if (hasFollower || (status !== 'failed' && status !== 'delivery_unknown') || this.suppressed.has(recipient))
      return false
    this.admit(as, recipient, ageMs)
    this.sentAgain.set(id, as)
    return true
  }

  /** A `Db` that answers at once. */
  db(): Db {
    const rows: Ask = <R extends object>(statement: Statement, values: readonly unknown[] = []) =>
      Promise.resolve().then(() => this.begin(statement.name, values)() as R[])
    return {
      rows,
      run: () => Promise.reject(new Error('the model knows statements by name')),
      transaction: () => Promise.reject(new Error('the model knows single statements')),
      close: () => Promise.resolve(),
    }
  }

  /** A statement begins; what it answers executes it. Only flawed ones look at anything before. */
  begin(name: string, values: readonly unknown[]): Execute {
    switch (name) {
      case 'claim':
      case 'claim-rationed':
        return () => this.#claim(values)
      case 'heartbeat':
      case 'heartbeat-waiting':
        return () => this.#heartbeat(values as [MessageId[], number[], string[], number])
      case 'prove-commit':
        return () => [{}]
      case 'arm':
        return this.#arm(values as [MessageId[], number[], string[], string[], string, number])
      case 'finish':
      case 'finish-relayed':
        return () => this.#finish(JSON.parse(String(values[0])) as FinishRow[])
      // Claims judge here: nothing waits for a room in vain.
      case 'overdue':
        return () => [{ ids: [], pages: 0 }]
      case 'expire':
        return () => this.#expire(values[0] as MessageId[])
      case 'cancel-waiting':
        return () => this.#cancel()
      case 'reap':
        return this.#reap(Number(values[0]), values[2] === true, values[3] as Date | string)
      case 'database-now':
        return () => [{ now: new Date(this.#options.now()) }]
      // Its clock is never set back.
      case 'hasten-untried-outbound':
        return () => []
      case 'hasten-put-off':
        return () => this.#hasten(values as [MessageId[], number[], string[]])
      case 'replay':
        return () => this.#replay(JSON.parse(String(values[0])) as FinishRow[])
      case 'check-in':
        return () => this.#checkIn(values as [string, string, number | null, number | null, number])
      case 'delivery-stops':
        return () =>
          [...this.stops]
            .map(([kind, { reason, since }]) => ({ kind, reason, facts: null, since: new Date(since) }))
            .sort((a, b) => (a.kind < b.kind ? -1 : 1))
      case 'drain':
        return () => this.#stop('drain', 'operator')
      case 'undrain':
        return () => {
          this.stops.delete('drain')
          this.stopsChanged()
          return []
        }
      case 'stop-by-operator':
        return () => this.#stop('fence', 'operator')
      case 'assume-sent':
        return () => this.#assumeSent((values[0] as Date).getTime(), (values[1] as Date).getTime())
      case 'lift-fence':
        return () => this.#lift()
      // Events have no numbers here.
      case 'adopt-events':
        return () => [{ many: 0 }]
      case 'renew-restored-mark':
        return () => []
      // What a failover has lost is none of theirs.
      case 'removed-workspaces':
      case 'vouch':
      case 'return-path-keys':
      case 'destination-limits':
        return () => []
      case 'signing-keys':
        return () => [this.#options.sender]
      default:
        throw new Error(`the model does not know the statement ${name}`)
    }
  }

  #hasten([ids, epochs, tokens]: readonly [readonly MessageId[], readonly number[], readonly string[]]): object[] {
    const now = this.#options.now()
    return ids.flatMap((id, at) => {
      const row = this.outbound.get(id)
      if (row === undefined || row.epoch !== epochs[at] || row.token !== tokens[at]) return []
      if (row.status !== 'retrying' || row.attempts <= 0 || row.dueAt <= now) return []
      row.dueAt = now
      row.attempts--
      return [{ id }]
    })
  }

  /** As `stopped_at_1`: no stop is older than what waits. */
  stoppedAt(): number {
    const waiting = this.#options.flaw === 'a stop is as old as its clock says' ? [] : [...this.outbound.keys()]
    return Math.max(this.#options.now(), ...waiting.map((id) => this.#record(id).createdAt))
  }

  #stop(kind: string, reason: string): object[] {
    const isThere = this.stops.has(kind)
    if (!isThere) this.stops.set(kind, { reason, since: this.stoppedAt() })
    // Each look while it pauses would bring the next one.
    if (!isThere || kind !== 'pause') this.stopsChanged()
    return []
  }

  #move(record: MessageRecord, to: MessageStatus, reason: string | null, outbound: Row | undefined): void {
    const from = record.status
    if (from !== to && !mayBecome(from, to)) throw new Refused(`message ${record.id} may not become ${to} from ${from}`)
    record.status = to
    record.events.push({ sequence: ++record.sequence, type: `message.${to}`, reason })
    this.onMoved(record, from, outbound)
  }

  /** What the hosts of an attempt said, behind its state; the one that counts is the last. */
  #report(record: MessageRecord, { deferred_by = [], report, report_event = '' }: FinishRow): void {
    const types = [...deferred_by.map(() => 'message.soft_bounced'), ...(report === undefined ? [] : [report_event])]
    for (const type of types) record.events.push({ sequence: ++record.sequence, type, reason: null })
  }

  /** Of one workspace. `rooms` bounds what a destination gets; the one of those who come first. */
  #claim(values: readonly unknown[]): object[] {
    const [, , , most, , , roomsJson, roomElse, leaseMs, owner, since] = values as ClaimValues
    const now = this.#options.now()
    const end = { spaces: 0, lastSpace: null, oldest: null, cursors: null, claimedAt: new Date(now) }
    if (this.stops.size > 0) return [end]
    const rooms = JSON.parse(roomsJson) as Readonly<Record<string, number>>
    const taken = new Map<string, number>()
    const free = [...this.outbound.values()].filter(
      (row) => row.leaseUntil === null && (since === '-infinity' || row.dueAt >= since.getTime()),
    )
    const oldest = free.length === 0 ? null : new Date(Math.min(...free.map(({ dueAt }) => dueAt)))
    const due = free.filter((row) => row.dueAt <= now).sort(byDue)
    const chosen = due.filter(({ destination }) => {
      const had = taken.get(destination) ?? 0
      taken.set(destination, had + 1)
      return had < (rooms[destination] ?? roomElse)
    })
    const rows = chosen.slice(0, most).map((row) => {
      const record = this.#record(row.id)
      const verdict =
        row.expiresAt <= now ? 'expired' : this.suppressed.has(record.recipient) ? 'recipient_suppressed' : null
      if (verdict === null) {
        row.status = 'sending'
        row.epoch++
        row.token = this.#options.token()
        row.attempts++
        row.leaseUntil = now + leaseMs
        row.leaseOwner = owner
        row.evidence = null
        this.#move(record, 'sending', null, row)
      } else {
        this.outbound.delete(row.id)
        this.#move(record, 'failed', verdict, row)
      }
      return {
        id: row.id,
        workspaceId: simulatedWorkspace,
        epoch: row.epoch,
        token: row.token,
        attempt: row.attempts,
        verdict,
        domainId: 'd',
        destination: row.destination,
        expiresAt: new Date(row.expiresAt),
        sender: 'post@shop.example',
        senderName: null,
        recipient: record.recipient,
        recipientKey: record.recipient,
        subject: 'Hello',
        acceptedBy: 'node.test',
        createdAt: new Date(record.createdAt),
        source: 'rest',
        bodyText: 'Good morning.\n',
        bodyBlob: null,
        hasAttachments: false,
        attachmentsBytes: 0,
        routeSealed: null,
        claimedAt: new Date(now),
        spaces: null,
      }
    })
    return [...rows, { ...end, oldest }]
  }

  #record(id: string): MessageRecord {
    const record = this.messages.get(id)
    if (record === undefined) throw new Refused(`no message ${id}`)
    return record
  }

  #ours(id: string, epoch: number, token: string): Row | undefined {
    const row = this.outbound.get(id)
    return row?.status === 'sending' && row.epoch === epoch && row.token === token ? row : undefined
  }

  #heartbeat([ids, epochs, tokens, leaseMs]: [MessageId[], number[], string[], number]): object[] {
    return ids.flatMap((id, at) => {
      const row = this.#ours(id, epochs[at] ?? 0, tokens[at] ?? '')
      if (row === undefined) return []
      row.leaseUntil = this.#options.now() + leaseMs
      return [{ id, epoch: row.epoch }]
    })
  }

  #arm([ids, epochs, tokens, keys, node, mark]: [MessageId[], number[], string[], string[], string, number]): Execute {
    const { flaw } = this.#options
    const early = flaw === 'suppression before lock' ? new Set(this.suppressed) : undefined
    return () => {
      const counter = this.counters.get(node)
      if (this.stops.size === 0 && (counter === undefined || counter < mark)) this.#stop('fence', 'behind')
      if (this.stops.size > 0) return ids.map((id, at) => ({ id, epoch: epochs[at], answer: 'halted', counter: null }))
      const raised = (counter ?? 0) + 1
      this.counters.set(node, raised)
      return ids.flatMap((id, at) => {
        const row =
          flaw === 'arm without epoch' ? this.outbound.get(id) : this.#ours(id, epochs[at] ?? 0, tokens[at] ?? '')
        if (row?.status !== 'sending' || (row.leaseUntil ?? 0) <= this.#options.now()) return []
        if (row.armedEpoch !== null && flaw !== 'arm although armed' && flaw !== 'arm without epoch') return []
        const record = this.#record(id)
        const epoch = epochs[at]
        if (row.expiresAt <= this.#options.now()) return [{ id, epoch, answer: 'expired', counter: raised }]
        if ((early ?? this.suppressed).has(keys[at] ?? ''))
          return [{ id, epoch, answer: 'suppressed', counter: raised }]
        row.armedEpoch = row.epoch
        this.onArmed(row, record)
        return [{ id, epoch, answer: 'armed', counter: raised }]
      })
    }
  }

  #finish(asked: readonly FinishRow[]): object[] {
    const counts = this.#options.flaw === 'a failure counts though nobody has decided'
    const isUndecided = this.stops.has('fence') || this.stops.has('pause')
    const batch = isUndecided && !counts ? asked.map(handedBack) : asked
    const rowOf = ({ id, epoch, token }: FinishRow) =>
      this.#options.flaw === 'finish without epoch' ? this.outbound.get(id) : this.#ours(id, epoch, token)
    // The triggers refuse the whole statement.
    for (const ending of batch) {
      const row = rowOf(ending)
      if (ending.status === 'retrying' && row?.armedEpoch != null && ending.evidence === undefined)
        throw new Refused(`message ${ending.id} is armed`)
    }
    return batch.flatMap((ending) => {
      const row = rowOf(ending)
      if (row?.status !== 'sending') return this.#lateProof(ending)
      // A failure of what is armed needs its proof; without it the lease runs out.
      const unproven = ending.status === 'failed' && row.armedEpoch !== null && ending.evidence !== 'not_written'
      if (unproven && !provesReply(ending)) return []
      const record = this.#record(ending.id)
      if (ending.status === 'retrying') {
        row.status = 'retrying'
        row.dueAt = this.#options.now() + (ending.delay_ms ?? 0)
        row.leaseUntil = row.leaseOwner = row.armedEpoch = null
        row.evidence = ending.evidence ?? null
        if (!ending.uses_try) row.attempts--
      } else {
        this.outbound.delete(row.id)
        const unknown = ending.status === 'delivery_unknown'
        record.armedEpoch = unknown ? row.armedEpoch : null
        record.armedToken = unknown ? row.token : null
      }
      this.#move(record, ending.status, ending.event.reason ?? null, row)
      this.#report(record, ending)
      if (!record.attempts.has(ending.epoch)) {
        record.attempts.set(ending.epoch, ending.outcome)
        record.endedAt.set(ending.epoch, this.#options.now())
        if (ending.facts.smtp?.code !== undefined) record.answered.add(ending.epoch)
      }
      if (ending.suppress === true) this.suppressed.add(record.recipient)
      this.#revive(record, row)
      return [{ id: ending.id, epoch: ending.epoch, handedBack: !asked.includes(ending) }]
    })
  }

  #lateProof(ending: FinishRow): object[] {
    const record = this.messages.get(ending.id)
    if (record?.status !== 'delivery_unknown') return []
    const { flaw } = this.#options
    const isIt = record.armedEpoch === ending.epoch && record.armedToken === ending.token
    if (!isIt && flaw !== 'late proof without epoch') return []
    if (!provesReply(ending)) return []
    const late4yz = ending.status === 'retrying'
    const becomes = late4yz ? 'failed' : ending.status
    record.armedEpoch = record.armedToken = null
    this.#move(record, becomes, late4yz ? 'eod_4xx_late' : (ending.event.reason ?? null), undefined)
    this.#report(record, ending)
    record.attempts.set(ending.epoch, late4yz ? 'failed' : ending.outcome)
    if (ending.suppress === true) this.suppressed.add(record.recipient)
    return [{ id: ending.id, epoch: ending.epoch }]
  }

  /** As `expire` of store/expire.ts: what waits, and has expired. */
  #expire(ids: readonly MessageId[]): object[] {
    if (this.stops.size > 0) return []
    return ids.flatMap((id) => {
      const row = this.outbound.get(id)
      return row?.leaseUntil === null && row.expiresAt <= this.#options.now() ? [this.#fail(row, 'expired')] : []
    })
  }

  /** As `cancel_waiting_2`, of a workspace that is blocked. */
  #cancel(): object[] {
    const { flaw } = this.#options
    const { timeline = this.serverTimeline } = this
    const isUnknown = timeline !== this.serverTimeline && flaw !== 'cancelled behind a failover that nobody has noticed'
    if (isUnknown || this.stops.has('fence') || this.stops.has('pause')) return [{ many: 0 }]
    const taken = flaw === 'cancelled though somebody has it'
    const waiting = [...this.outbound.values()].filter(({ leaseUntil }) => leaseUntil === null || taken)
    return [{ many: waiting.sort(byId).map((row) => this.#fail(row, 'workspace_blocked')).length }]
  }

  #fail(row: Row, reason: string): { readonly id: MessageId } {
    this.outbound.delete(row.id)
    this.#move(this.#record(row.id), 'failed', reason, row)
    return { id: row.id }
  }

  #reap(triesMax: number, armedToo: boolean, before: Date | string): Execute {
    const { flaw } = this.#options
    const expired = (now: number) =>
      [...this.outbound.values()].filter(
        (row) => row.status === 'sending' && (row.leaseUntil ?? 0) < now && (armedToo || row.armedEpoch === null),
      )
    const early =
      flaw === 'reaper without conditions' ? expired(this.#options.now()).map((row) => ({ ...row })) : undefined
    return () => {
      if (this.stops.has('fence') || this.stops.has('pause')) return []
      const now = this.#options.now()
      if (before instanceof Date && now >= before.getTime()) return []
      return (early ?? expired(now)).sort(byId).flatMap((seen) => {
        const row = this.outbound.get(seen.id)
        if (row === undefined) return []
        const record = this.#record(row.id)
        const over = seen.attempts >= triesMax ? 'tries_used_up' : seen.expiresAt <= now ? 'expired' : undefined
        const becomes = seen.armedEpoch !== null ? 'delivery_unknown' : over === undefined ? 'retrying' : 'failed'
        if (becomes === 'retrying') {
          row.status = 'retrying'
          row.dueAt = now
          row.leaseUntil = row.leaseOwner = row.armedEpoch = null
        } else this.outbound.delete(row.id)
        record.armedEpoch = seen.armedEpoch
        record.armedToken = seen.armedEpoch === null ? null : seen.token
        if (record.status !== becomes)
          this.#move(record, becomes, becomes === 'failed' ? (over ?? null) : 'worker_lost', {
            ...row,
            armedEpoch: seen.armedEpoch,
          })
        if (!record.attempts.has(seen.epoch)) {
          record.attempts.set(seen.epoch, becomes)
          record.endedAt.set(seen.epoch, now)
        }
        this.#revive(record, row)
        return [{ id: row.id, becomes }]
      })
    }
  }

  /** The flaw of a "send again" that takes the old row. */
  #revive(record: MessageRecord, row: Row): void {
    if (this.#options.flaw !== 'old row revived' || record.status !== 'delivery_unknown') return
    this.outbound.set(record.id, {
      ...row,
      status: 'retrying',
      dueAt: this.#options.now(),
      leaseUntil: null,
      leaseOwner: null,
      armedEpoch: null,
    })
    record.status = 'retrying'
  }

  #replay(batch: readonly FinishRow[]): object[] {
    const answers = batch.map((ending) => {
      const row = this.outbound.get(ending.id)
      const armed = this.#ours(ending.id, ending.epoch, ending.token)?.armedEpoch === ending.epoch
      const orphan = row !== undefined && (ending.status === 'sent' || row.epoch < ending.epoch) && !armed
      if (orphan) {
        this.orphans.set(`${ending.id} ${ending.epoch} ${ending.token}`, ending)
        this.#stop('fence', 'orphaned_reply')
      }
      return {
        id: ending.id,
        epoch: ending.epoch,
        answer: orphan ? 'orphan' : this.messages.has(ending.id) ? 'known' : 'gone',
      }
    })
    const explained = batch.filter((ending) => !this.orphans.has(`${ending.id} ${ending.epoch} ${ending.token}`))
    this.#nameClaims(explained)
    this.#finish(explained)
    return answers
  }

  /** What was assumed to be sent names no claim: a reply that is an end names it. The acceptance before any refusal, and the last one. */
  #nameClaims(endings: readonly FinishRow[]): void {
    for (const ending of decisiveFirst(endings)) {
      const record = this.messages.get(ending.id)
      if (record?.status !== 'delivery_unknown' || record.armedEpoch !== null || record.armedToken !== null) continue
      if (!['sent', 'failed'].includes(ending.status) || !provesReply(ending)) continue
      record.armedEpoch = ending.epoch
      record.armedToken = ending.token
    }
  }

  #checkIn([node, , mark, markEra]: [string, string, number | null, number | null, number]): object[] {
    const mine = this.counters.get(node)
    const firstUse = this.messages.size === 0
    this.#renewInherited()
    if (markEra !== null && markEra > this.era) {
      if (firstUse) this.era = markEra
      else this.eraSeen = Math.max(this.eraSeen, markEra)
    }
    const isNewer = markEra !== null && markEra > this.era
    const isBehind = isNewer || (markEra === this.era && (mine === undefined || mine < (mark ?? 0)))
    const trouble = firstUse ? null : isBehind ? 'behind' : mark === null && this.#needsMark() ? 'no_mark' : null
    if (trouble !== null) this.#stop('fence', trouble)
    const counter = Math.max(mine ?? 0, trouble === null ? (mark ?? 0) : 0)
    this.counters.set(node, counter)
    if (trouble === null) this.#foundRight(node, firstUse)
    else if (mine === undefined) this.confirmed.set(node, this.#options.now())
    return [
      {
        counter: trouble === null ? counter : (mark ?? 0),
        era: trouble !== null && mark !== null ? markEra : this.era,
        trouble,
        serverKnown: true,
      },
    ]
  }

  /** A stop that came over with a standby may have been decided about before that took over. */
  #renewInherited(): void {
    const { serverTimeline, timelineSeen = this.timeline ?? serverTimeline } = this
    this.timelineSeen = serverTimeline
    if (timelineSeen === serverTimeline) return
    this.stops.delete('pause')
    const fence = this.stops.get('fence')
    if (fence !== undefined) this.stops.set('fence', { ...fence, since: this.stoppedAt() })
  }

  /** Somebody may have sent what waits here, in this era, and nobody who knows of it is here to say so. */
  #needsMark(): boolean {
    const { isVouchedFor = () => true } = this.#options
    const hasArmed = [...this.counters].some(
      ([id, counter]) => counter > 0 && (this.eras.get(id) ?? this.era) === this.era,
    )
    return this.outbound.size > 0 && hasArmed && !isVouchedFor()
  }

  /** Behind a failover everybody waits for all the others. */
  #foundRight(node: string, firstUse: boolean): void {
    this.timelines.set(node, this.serverTimeline)
    this.eras.set(node, this.era)
    this.confirmed.set(node, this.#options.now())
    if (firstUse) this.timeline = this.serverTimeline
    this.timeline ??= this.serverTimeline
    if (this.timeline === this.serverTimeline) return
    // A process that died before its mark was on the disk is another node when it starts again.
    const isForgotten = (other: string) =>
      this.counters.get(other) === 0 && this.#options.now() - (this.confirmed.get(other) ?? 0) > unarmedForgottenMs
    const waits = [...this.counters.keys()].some(
      (other) => this.timelines.get(other) !== this.serverTimeline && !isForgotten(other),
    )
    if (waits && this.#options.flaw !== 'no pause after a failover') this.#stop('pause', 'timeline')
    else {
      this.timeline = this.serverTimeline
      if (this.stops.delete('pause')) this.stopsChanged()
    }
  }

  /** Before the time that its row names: put off or handed back since delivery stopped, or because nobody was found. */
  #mayHaveGoneEarly({ id, epoch, status, attempts }: Row, till: number): boolean {
    if (status !== 'retrying' || this.#options.flaw === 'what may have gone early is spared') return false
    const { endedAt, answered } = this.#record(id)
    return (endedAt.get(epoch) ?? 0) > till || (attempts > 0 && !answered.has(epoch))
  }

  /** All at once: there are never many. */
  #assumeSent(since: number, till: number): object[] {
    const spared = this.#options.flaw === 'what is under way is not assumed to be sent'
    const chosen = [...this.outbound.values()].filter(
      (row) =>
        this.#record(row.id).createdAt <= till &&
        row.expiresAt > since &&
        (row.status === 'sending' ? !spared : row.dueAt <= till || this.#mayHaveGoneEarly(row, till)),
    )
    for (const row of chosen.sort(byId)) {
      this.outbound.delete(row.id)
      const record = this.#record(row.id)
      record.armedEpoch = row.armedEpoch
      record.armedToken = row.armedEpoch === null ? null : row.token
      this.#move(record, 'delivery_unknown', 'assumed_sent', undefined)
    }
    return [{ moved: chosen.length, last: null }]
  }

  #lift(): object[] {
    const endings = decisiveFirst([...this.orphans.values()])
    for (const { id, epoch, token } of endings) {
      if (!this.outbound.delete(id)) continue
      const record = this.#record(id)
      record.armedEpoch = epoch
      record.armedToken = token
      this.#move(record, 'delivery_unknown', 'assumed_sent', undefined)
    }
    this.#nameClaims(endings)
    const settled = endings.flatMap((ending) => this.#lateProof(ending)).length
    this.orphans.clear()
    this.timeline = this.serverTimeline
    for (const id of this.counters.keys()) if (!this.eras.has(id)) this.eras.set(id, this.era)
    this.era = Math.max(this.era, this.eraSeen) + 1
    this.stops.delete('fence')
    this.stops.delete('pause')
    this.stopsChanged()
    return [{ settled }]
  }
}

/** Of one message an acceptance before all else, and then the last one. */
function decisiveFirst(endings: readonly FinishRow[]): FinishRow[] {
  return endings.toSorted(
    (one, other) => Number(other.status === 'sent') - Number(one.status === 'sent') || other.epoch - one.epoch,
  )
}

function byDue(one: Row, other: Row): number {
  return one.dueAt - other.dueAt || byId(one, other)
}

function byId(one: { readonly id: string }, other: { readonly id: string }): number {
  return one.id < other.id ? -1 : 1
}
