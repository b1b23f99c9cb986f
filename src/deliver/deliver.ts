// From a queued message to an outcome: claim, prepare, transmit (arm inside), record; no transaction is open while we talk to anyone
// (delivery-semantics). One loop claims, as many attempts run at once as there are slots, and a heartbeat keeps their leases.
import { randomUUID } from 'node:crypto'
import { limits } from '../config.ts'
import type { Route } from '../config.ts'
import { makeClaimLoop } from '../base/claim-loop.ts'
import type { Facts, Log } from '../base/log.ts'
import { isNothingLeft } from '../base/nothing-left.ts'
import { repeating } from '../base/repeating.ts'
import type { Trouble } from '../domain/attempt.ts'
import type { MessageStatus } from '../domain/message.ts'
import { lifecycle, type Service } from '../base/service.ts'
import type { Vault } from '../base/secret.ts'
import type { Sign } from '../mail/dkim.ts'
import { commitSomething, databaseNow, isDatabaseAway, type Db } from '../store/database.ts'
import { claimDue, firstSpace, placeOf, type ClaimAnswer } from '../store/claim.ts'
import { listDestinationLimits } from '../store/destinations.ts'
import { expireSome } from '../store/expire.ts'
import { hastenBacklog } from '../store/housekeeping.ts'
import { routesWaitedFor } from '../store/queue-facts.ts'
import {
  claimName,
  extendLeases,
  extendLocked,
  hastenPutOff,
  reap,
  type Claimed,
  type Ending,
  type Recorder,
} from '../store/outbound.ts'
import type { ArmAnswer } from './arm.ts'
import type { SevenBit } from './conversation.ts'
import type { Gate } from './fence.ts'
import type { Journal } from './journal.ts'
import { makeBackAgain } from './back-again.ts'
import { makeDeferrals } from './deferrals.ts'
import { makeLaneCursors } from './lane-cursors.ts'
import { makeLogins } from './logins.ts'
import { makeOutages } from './outages.ts'
import { GivenUp, makePreparer, NotComposable, type Prepared } from './prepare.ts'
import { endingOf, gaveWay, gaveWayMs, isReplyToDot, ourLackMs, putOff, unattempted, unread } from './record.ts'
import { makeRoom, type Guest } from './room.ts'
import { makeSlots, untilClaim, type Landing } from './slots.ts'
import type { Transmitter, TransmitJob, TransmitResult } from './transmit.ts'
import { makeUnheard } from './unheard.ts'

export { makeFence } from './fence.ts'
export type { Fence } from './fence.ts'
export { openJournal } from './journal.ts'
export { openMark, readMark } from './mark.ts'
export { makeHandOver } from './hand-over.ts'
export { providerOf } from './providers.ts'
export { visitRelay } from './relay-visit.ts'
export { makeSigners } from './signers.ts'
export { makeTransmitter } from './transmit.ts'

export interface DeliverTools {
  readonly db: Db
  /** For heartbeats alone: whatever hangs elsewhere, and however patient its asker is, holds up none. Its answers have `beatAnswerMs`. */
  readonly leaseDb: Db
  readonly recorder: Recorder
  readonly transmitter: Transmitter
  readonly gate: Gate
  readonly journal: Journal
  readonly vault: Vault
  /** Left out: signatures are made on the thread pool. */
  readonly sign?: Sign
  readonly log: Log
  readonly leaseMs: number
  readonly timeScale: number
  /** The waits between tries, in seconds. */
  readonly retrySchedule: readonly number[]
  /** Fires when a stop waits for the database no longer. */
  readonly patience: AbortSignal
  /** The installation's route. */
  readonly route: Route
  /** A workspace's own route, out of its sealed column. */
  openRoute(workspaceId: string, sealed: Buffer): Route
  /** Calls back when something may be due. */
  onDue(wake: () => void): { stop(): Promise<void> }
}

interface InFlight extends Guest {
  readonly claimed: Claimed
  heardAt: number
  /** What it holds in memory while it is tried, roughly; small texts are not counted. */
  readonly contentBytes: number
  /** Database time less `performance.now()`, as the claim told it: this machine's own date counts for nothing. */
  readonly databaseClockMs: number
  /** Aborted when the lease is lost, and at a shutdown: a dot that is not written by then never is. */
  readonly giveUp: AbortController
  /** The row is somebody else's: it is not on the heartbeat's list any more. */
  lost: boolean
  /** It waits for a host that says nothing, and others need its slot, or its room. */
  gaveWay: boolean
  /** What the attempt has shown of its destination. */
  landing: Landing
  /** From here on the row may be armed, so that a fault of ours proves nothing. */
  armAsked: boolean
  /** The database was away at its arm, or its answer came when the lease was over: no word about the message. */
  armLacked: boolean
  result: TransmitResult | undefined
  /** On the clock of `performance.now()`; moved on by the heartbeat. */
  leaseEndsAt: number
  /** The other side has answered the dot: worth a line in the journal. */
  replied: boolean
}

const idleMs = 1_000
const composeTriesMax = 3

/**
 * How long a heartbeat waits for an answer before it gives up its line for another: a line may be dead without anybody having said so, while the
 * database and all other lines live. Between two heartbeats and a lease that runs out there must be time for that.
 */
export const beatAnswerMs = (leaseMs: number): number => Math.max(limits.databaseAnswerMs, leaseMs / 4)
/** From one heartbeat to the next; behind one that got no answer there is no time to lose. */
const beatPauseMs = (leaseMs: number, failed: boolean): number => leaseMs / (failed ? 20 : 3)

/** What becomes of a message whose worker was lost, in the words of attempts: alerts and metrics count those. */
const reapedAs: Partial<Record<MessageStatus, string>> = { retrying: 'retry', delivery_unknown: 'unknown' }
/** Troubles that tell of nobody on the other side. */
const silences: ReadonlySet<Trouble> = new Set(['dns_failure', 'connect_failed', 'timeout', 'shutdown'])

export function deliverer(
  tools: DeliverTools,
): Service & { readonly inFlight: number; readonly loginsRefused: number } {
  const owner = randomUUID()
  const preparer = makePreparer(tools.db, tools.vault, tools.sign)
  const flights = new Map<string, InFlight>()
  const logins = makeLogins(tools.log)
  const deferrals = makeDeferrals(tools.log)
  const backAgain = makeBackAgain({
    timeScale: tools.timeScale,
    hasten: async (some) => {
      const hastened = await hastenPutOff(tools.db, some)
      if (hastened.size > 0) claims.poke()
      return hastened
    },
    namesAnswer: () => tools.transmitter.namesAnswer(),
  })
  const slots = makeSlots((provider) => tools.transmitter.roomOf(provider))
  const contentRoom = makeRoom<InFlight>(limits.contentInFlightBytesMax, limits.contentOfWorkspaceBytesMax)
  /** What of it exists a second time, for a host without 8BITMIME. Whoever holds some of it waits for nobody: it is given back before the next host. */
  const convertedRoom = makeRoom<InFlight>(limits.convertedInFlightBytesMax, limits.convertedOfWorkspaceBytesMax)
  const unheard = makeUnheard(tools)
  const cursors = makeLaneCursors()
  let due: { stop(): Promise<void> } | undefined
  let outages = makeOutages(tools.leaseMs)
  /** Nobody here knows whether the clock was set back before the first look. */
  let lookedAt = Infinity
  /** Since when a heartbeat of ours, or the commit behind it, waits for its answer. */
  let beatingSince = Infinity
  let beatFailed = false
  /** A heartbeat waits for rows that are locked. */
  let lingering = false

  const trouble = (what: string) => (error: unknown) => {
    tools.log.fault(what, error)
    if (isDatabaseAway(error)) outages.failed()
  }

  const freeSlots = () => limits.messagesInFlightMax - flights.size

  const claims = makeClaimLoop<ClaimAnswer>({
    first: firstSpace,
    least: limits.claimLeast,
    // A look at very many workspaces is not free.
    restMs: (walkMs) => Math.max(20, idleMs / tools.timeScale, walkMs / limits.idleLookPart),
    waitMs: (sinceLastMs) => (tools.gate.isOpen() ? untilClaim(freeSlots(), sinceLastMs) : Infinity),
    claim: (cursor, since) =>
      claimDue(
        tools.db,
        {
          cursor,
          since,
          cursors: cursors.all(),
          most: Math.min(freeSlots(), limits.claimMost, slots.mostOfOne()),
          ...slots.rooms(),
          roomElse: limits.slotsAtFirst,
          crowded: slots.crowded(),
          leaseMs: tools.leaseMs,
          owner,
        },
        trouble('claim'),
      ),
    launch: ({ claimed, refused, cursors: lanes }, askedAt) => {
      cursors.moved(lanes)
      for (const { id, reason } of refused) tools.log.attempted({ messageId: id, outcome: 'failed', reason })
      for (const each of claimed) launch(each, askedAt)
      return claimed.length + refused.length > 0
    },
    trouble: trouble('claim'),
  })

  const launch = (claimed: Claimed, claimedAt: number) => {
    const name = claimName(claimed)
    const flight: InFlight = {
      claimed,
      owner: claimed.workspaceId,
      heardAt: performance.now(),
      contentBytes: claimed.attachmentsBytes + (claimed.bodyBlob === null ? 0 : limits.bodyTextBytesMax),
      databaseClockMs: claimed.claimedAt.getTime() - claimedAt,
      giveUp: new AbortController(),
      lost: false,
      gaveWay: false,
      landing: 'silent',
      armAsked: false,
      armLacked: false,
      result: undefined,
      leaseEndsAt: claimedAt + tools.leaseMs,
      replied: false,
    }
    // Delivery was stopped while the claim was on its way.
    if (!tools.gate.isOpen()) flight.giveUp.abort()
    flights.set(name, flight)
    slots.launched(placeOf(claimed), claimed.workspaceId)
    void attempt(flight).finally(() => {
      flights.delete(name)
      const opened = slots.landed(placeOf(claimed), claimed.workspaceId, flight.landing)
      if (opened || freeSlots() === limits.claimLeast || freeSlots() === limits.claimMany) claims.poke()
      if (flights.size === 0) quiet()
    })
  }

  /** From the claim to the record. Never rejects. */
  const attempt = async (flight: InFlight): Promise<void> => {
    // Small texts are not counted: nothing to hold, nobody to wait for.
    const leave =
      flight.contentBytes > 0
        ? await contentRoom.enter(flight, flight.contentBytes, flight.giveUp.signal)
        : () => undefined
    flight.heardAt = performance.now()
    let ending: Ending | undefined
    try {
      ending = await tryOnce(flight, leave)
    } finally {
      leave()
    }
    if (ending !== undefined) await unheard.tell(ending, flight)
    if (flight.result !== undefined) backAgain.note(flight.claimed, flight.result, ending)
  }

  /**
   * What is to be transmitted; undefined when its content is gone. Nothing else holds the content, so that it is let go with the arm, and its room
   * with it: the reply to the dot may be ten minutes away.
   */
  const jobOf = async (flight: InFlight, leave: () => void): Promise<TransmitJob | undefined> => {
    const { claimed, giveUp } = flight
    const prepared = await preparer.prepare(claimed, giveUp.signal)
    if (prepared === undefined) return undefined
    const { recipient, envelopeFrom, token, size, needs8bit, needsSmtputf8 } = prepared
    const route = claimed.routeSealed === null ? tools.route : tools.openRoute(claimed.workspaceId, claimed.routeSealed)
    let held: Prepared | undefined = prepared
    return {
      recipient,
      envelopeFrom,
      get content() {
        return held?.content ?? []
      },
      size,
      needs8bit,
      sevenBit: async () => held?.sevenBit && convert(flight, size, held.sevenBit),
      needsSmtputf8,
      route,
      workspaceId: claimed.workspaceId,
      ownRoute: claimed.routeSealed !== null,
      // What a relay takes is not delivered yet; only its reports tell. A mail host's own 250 is all the proof there is.
      reports: { envelopeId: token, success: route.kind === 'relay' },
      heading: (provider) => slots.heading(placeOf(claimed), provider),
      arm: () => {
        held = undefined
        leave()
        return armSurely(flight)
      },
      heard: () => void (flight.heardAt = performance.now()),
      // A tenth of the lease stays as a margin: past it another worker may be deciding.
      deadline: () => flight.leaseEndsAt - tools.leaseMs / 10,
      signal: giveUp.signal,
    }
  }

  const convert = async (
    flight: InFlight,
    size: number,
    make: NonNullable<Prepared['sevenBit']>,
  ): Promise<SevenBit | undefined> => {
    const { signal } = flight.giveUp
    // It holds a connection that others wait for.
    const tooLong = setTimeout(() => giveWay(flight), limits.contentPatienceMs / tools.timeScale)
    const leave = await convertedRoom.enter(flight, size, signal)
    clearTimeout(tooLong)
    if (signal.aborted) {
      leave()
      return undefined
    }
    flight.heardAt = performance.now()
    const form = await make().catch((error: unknown) => {
      leave()
      throw error
    })
    if (form === undefined) leave()
    return form && { ...form, leave }
  }

  /** How the attempt ended; undefined when that is for somebody else to write down. */
  const tryOnce = async (flight: InFlight, leave: () => void): Promise<Ending | undefined> => {
    const { claimed, giveUp } = flight
    const now = () => new Date(flight.databaseClockMs + performance.now())
    const startedAt = now()
    const { timeScale, retrySchedule } = tools
    const schedule = () => ({ timeScale, retrySchedule, now: now(), startedAt })
    const handedBack = () =>
      flight.gaveWay
        ? putOff(claimed, gaveWayMs(claimed, now()), gaveWay(), schedule())
        : unattempted(claimed, { kind: 'retry', reason: 'shutdown' }, schedule())
    if (giveUp.signal.aborted) return handedBack()
    try {
      const job = await jobOf(flight, leave)
      if (job === undefined) return unattempted(claimed, { kind: 'failed', reason: 'content_lost' }, schedule())
      const result = await tools.transmitter.transmit(job)
      flight.result = result
      flight.replied = isReplyToDot(result)
      const { phase, reply, trouble, peer } = result
      const answered = trouble === undefined || !silences.has(trouble)
      flight.landing = result.late === true ? 'late' : answered ? 'answered' : 'silent'
      // Whoever asked to arm has to say what became of it.
      const madeWay = flight.gaveWay && trouble === 'shutdown' && !flight.armAsked
      const lacked = flight.armLacked || trouble === 'too_late'
      const waits = madeWay
        ? gaveWayMs(claimed, now())
        : lacked
          ? ourLackMs(claimed, schedule())
          : flight.armAsked
            ? undefined
            : result.pacedMs
      const seen = madeWay ? gaveWay(result) : result
      const ending =
        waits === undefined ? endingOf(claimed, seen, schedule()) : putOff(claimed, waits, seen, schedule())
      tools.log.attempted({
        messageId: claimed.id,
        workspaceId: claimed.workspaceId,
        attempt: claimed.attempt,
        domain: claimed.destination,
        outcome: ending?.outcome ?? 'decided elsewhere',
        phase,
        code: reply?.code,
        trouble: seen.trouble,
        cause: seen.cause,
        host: peer?.host,
        tls: peer?.tls,
        ms: now().getTime() - startedAt.getTime(),
        ...told(ending, now().getTime() - claimed.createdAt.getTime(), result.provider),
      })
      logins.note(claimed, job.route, result)
      deferrals.note(claimed, result)
      return ending
    } catch (error) {
      if (error instanceof GivenUp) return handedBack()
      const lacking = isNothingLeft(error)
      // Told in the same words for all, however many there are.
      const fault = lacking ? new Error('nothing is left here for one more connection', { cause: error }) : error
      tools.log.fault('attempt', fault, { messageId: claimed.id })
      // Perhaps armed, perhaps past the dot: without the heartbeat the lease runs out, and the reaper goes by the row.
      if (flight.armAsked) return undefined
      if (giveUp.signal.aborted) return handedBack()
      // Nobody was asked about it.
      if (lacking) return putOff(claimed, gaveWayMs(claimed, now()), gaveWay(), schedule())
      if (isDatabaseAway(error)) return putOff(claimed, ourLackMs(claimed, schedule()), unread, schedule())
      // What else went wrong on this machine is no fault of the message.
      const hopeless = claimed.attempt >= composeTriesMax && error instanceof NotComposable
      const outcome = hopeless
        ? ({ kind: 'failed', reason: 'not_composable' } as const)
        : ({ kind: 'retry', reason: 'worker_lost' } as const)
      return unattempted(claimed, outcome, schedule())
    }
  }

  const armSurely = async (flight: InFlight): Promise<ArmAnswer> => {
    flight.armAsked = true
    try {
      return await tools.recorder.arm(flight.claimed)
    } catch (error) {
      // Committed or not, nobody knows: the dot is renounced for good, and the record says so until it is heard.
      tools.log.fault('arm', error, { messageId: flight.claimed.id })
      flight.armLacked = isDatabaseAway(error)
      return 'failed'
    }
  }

  /**
   * Also of a node that holds nothing: whose own commits hang knows that the others' do. Reading goes on where commits wait for a standby or a disk,
   * and a heartbeat that met no row has written nothing.
   */
  const heartbeat = async (): Promise<void> => {
    beatingSince = performance.now()
    beatFailed = true
    try {
      await extendHeld()
      await commitSomething(tools.leaseDb)
      beatFailed = false
    } finally {
      if (isBeatingLate()) outages.failed()
      beatingSince = Infinity
    }
  }

  /** While one hangs leases run out, ours and those of others, though everybody lives. */
  const isBeatingLate = (): boolean => performance.now() - beatingSince > tools.leaseMs / 4

  const extendHeld = async (): Promise<void> => {
    const held = [...flights.values()].filter((flight) => !flight.lost)
    if (held.length === 0) return
    const extended = await beat(tools.leaseDb, held, extendLeases)
    const left = held.filter((flight) => !extended.has(claimName(flight.claimed)))
    if (left.length > 0 && !lingering) linger(left).catch(trouble('heartbeat'))
  }

  const beat = async (db: Db, held: readonly InFlight[], extend: typeof extendLeases): Promise<ReadonlySet<string>> => {
    const claims = held.map((flight) => flight.claimed)
    const askedAt = performance.now()
    const ours = await extend(db, claims, tools.leaseMs)
    for (const flight of held) if (ours.has(claimName(flight.claimed))) flight.leaseEndsAt = askedAt + tools.leaseMs
    return ours
  }

  /** Behind whoever has these rows locked, so that no lock that somebody holds for long costs the others their leases. */
  const linger = async (left: readonly InFlight[]): Promise<void> => {
    lingering = true
    const ours = await beat(tools.db, left, extendLocked).finally(() => (lingering = false))
    for (const { claimed, giveUp } of left) {
      const flight = flights.get(claimName(claimed))
      if (flight === undefined || ours.has(claimName(claimed))) continue
      flight.lost = true
      giveUp.abort()
    }
  }

  const reapSome = async (): Promise<void> => {
    if (!tools.gate.knowsDatabase()) return
    const at = await databaseNow(tools.db)
    if (at.getTime() < lookedAt) {
      await hastenBacklog(tools.db).catch(trouble('backlog'))
      if (lookedAt < Infinity) claims.lookAnew()
    }
    lookedAt = at.getTime()
    if (isBeatingLate()) outages.failed()
    const believed = outages.heard(lookedAt)
    if (believed === 'none') return
    // A statement that hangs on its way, and meets a database that was away meanwhile, does nothing.
    const before = new Date(at.getTime() + tools.leaseMs / 4)
    for (const { id, becomes } of await reap(tools.db, tools.retrySchedule.length + 1, {
      armedToo: believed === 'all',
      before,
      refused: trouble('reap'),
    })) {
      tools.log.attempted({ messageId: id, outcome: reapedAs[becomes] ?? becomes, reason: 'worker_lost' })
      claims.poke()
    }
  }

  /**
   * Those that wait for a destination which says nothing make room, the youngest first: they had no connection yet. And those whose content is in
   * the way of others', the longest silent first.
   */
  const makeWay = async (): Promise<void> => {
    const silentSince = performance.now() - limits.contentPatienceMs / tools.timeScale
    for (const room of [contentRoom, convertedRoom]) for (const flight of room.inTheWay(silentSince)) giveWay(flight)
    const surplus = new Map(slots.surplus())
    if (surplus.size === 0) return
    for (const flight of [...flights.values()].toReversed()) {
      const place = placeOf(flight.claimed)
      const many = surplus.get(place) ?? 0
      if (many === 0 || flight.armAsked || flight.gaveWay) continue
      surplus.set(place, many - 1)
      giveWay(flight)
    }
  }

  const giveWay = (flight: InFlight): void => {
    flight.gaveWay = true
    flight.giveUp.abort()
  }

  let expiryPage = 0
  const expiryRestMs = Math.max(20, limits.expiryRestMs / tools.timeScale)
  let expiryPauseMs = expiryRestMs
  /** What gets no turn has its time all the same. */
  const expireOld = async (): Promise<void> => {
    if (!tools.gate.isOpen()) return
    const began = performance.now()
    const { expired, next } = await expireSome(tools.db, expiryPage, (error) => tools.log.fault('expiry', error))
    for (const messageId of expired) tools.log.attempted({ messageId, outcome: 'failed', reason: 'expired' })
    expiryPage = next ?? 0
    const tookMs = performance.now() - began
    expiryPauseMs = next === undefined ? expiryRestMs : Math.min(expiryRestMs, tookMs / limits.expiryLookPart)
  }

  const readLimits = async (): Promise<void> =>
    tools.transmitter.configure(await listDestinationLimits(tools.db, limits.destinationLimitsMax))

  const lookAtLogins = (): Promise<void> => logins.look((whose) => routesWaitedFor(tools.db, whose))

  let quiet: () => void = () => undefined
  const timers = [
    repeating(() => beatPauseMs(tools.leaseMs, beatFailed), heartbeat, trouble('heartbeat')),
    repeating(() => Math.min(1_000, tools.leaseMs / 4), reapSome, trouble('reap')),
    repeating(() => limits.journalAfterMs / 4, unheard.journalLate, trouble('journal')),
    repeating(() => limits.slotsLookMs, makeWay, trouble('slots')),
    // It hears of outages that others see, too, and waits on: what it looks for has waited for long.
    repeating(
      () => expiryPauseMs,
      expireOld,
      (error) => tools.log.fault('expiry', error),
    ),
    repeating(() => Math.max(20, limits.backAgainLookMs / tools.timeScale), backAgain.look, trouble('back again')),
    repeating(() => limits.destinationLimitsReadMs, readLimits, trouble('destinations')),
    repeating(() => limits.loginsLookMs, lookAtLogins, trouble('relay logins')),
  ]
  /** Hands back what is not armed; past the dot an attempt goes on to its reply. */
  const giveUpAll = () => {
    for (const flight of flights.values()) flight.giveUp.abort()
  }
  tools.gate.onChange(() => {
    if (!tools.gate.isOpen()) giveUpAll()
    claims.lookAnew()
  })
  const service = lifecycle(
    'deliver',
    async () => {
      await tools.transmitter.service.start()
      await readLimits().catch(trouble('destinations'))
      unheard.stopAt(Infinity)
      outages = makeOutages(tools.leaseMs)
      lookedAt = Infinity
      due = tools.onDue(claims.poke)
      for (const timer of timers) timer.start()
      claims.start()
    },
    async () => {
      unheard.stopAt(performance.now() + limits.shutdownMs)
      // Unarmed work is handed back; past the dot an attempt goes on to its reply, within the time for a shutdown, and its lease with it.
      giveUpAll()
      const claimed = claims.stop()
      // Its time for replies counts from here, and not from the end of a claim that hangs.
      const spoken = tools.transmitter.service.stop()
      await claimed
      giveUpAll() // what the last claim brought
      await due?.stop()
      const landed = flights.size === 0 ? Promise.resolve() : new Promise<void>((resolve) => (quiet = resolve))
      await spoken
      await landed
      for (const timer of timers) await timer.stop()
    },
  )
  return {
    ...service,
    get inFlight() {
      return flights.size
    },
    get loginsRefused() {
      return logins.refused
    },
  }
}

/** What the numbers need to know: how old a message was when it was taken, and what kind of refusal it met at whom. */
function told(ending: Ending | undefined, ageMs: number, provider: string | undefined): Facts {
  const bounce = ending?.report?.bounce as { readonly class?: string } | undefined
  return {
    ...(ending?.outcome === 'accepted' && { ageMs }),
    ...(bounce?.class !== undefined && { report: ending?.report?.type ?? '', bounce: bounce.class, provider }),
  }
}
