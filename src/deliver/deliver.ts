// From a queued message to an outcome: claim, prepare, transmit (arm inside), record; no transaction is open while we talk to anyone
// (delivery-semantics). One loop claims, as many attempts run at once as there are slots, and a heartbeat keeps their leases.
import { randomUUID } from 'node:crypto'
import { isThereAWayOut } from '../base/way-out.ts'
import { limits } from '../config.ts'
import { makeClaimLoop } from '../base/claim-loop.ts'
import { repeating } from '../base/repeating.ts'
import { lifecycle, type Service } from '../base/service.ts'
import { isDatabaseAway } from '../store/database.ts'
import { claimDue, slotsNameOf, type ClaimAnswer } from '../store/claim.ts'
import { listDestinationLimits } from '../store/destinations.ts'
import { routesWaitedFor } from '../store/queue-facts.ts'
import { claimName, hastenPutOff, type Claimed, type Ending, type Recorder } from '../store/outbound.ts'
import { leastId } from '../store/message-id.ts'
import { makeAttempts, type AttemptTools } from './attempt.ts'
import { makeBackAgain } from './back-again.ts'
import { makeDeferrals } from './deferrals.ts'
import { makeExpiry } from './expiry.ts'
import type { Gate } from './fence.ts'
import { flightOf, giveWay, type InFlight } from './flight.ts'
import { makeHeartbeat, type HeartbeatTools } from './heartbeat.ts'
import { makeJobs, type JobTools } from './job.ts'
import type { Journal } from './journal.ts'
import { makeLaneCursors } from './lane-cursors.ts'
import { makeLogins } from './logins.ts'
import { makeMemory, type MemoryTools } from './memory.ts'
import { makeOutages } from './outages.ts'
import { makeReaper } from './reaper.ts'
import { makeRoom } from './room.ts'
import { makeSlots, untilClaim } from './slots.ts'
import type { Transmitter } from './transmit.ts'
import { makeUnheard } from './unheard.ts'

export { makeFence } from './fence.ts'
export type { Fence } from './fence.ts'
export { openJournal } from './journal.ts'
export { openMark, readMark } from './mark.ts'
export { makeHandOver } from './hand-over.ts'
export { beatAnswerMs } from './heartbeat.ts'
export { providerOf } from './providers.ts'
export { visitRelay } from './relay-visit.ts'
export { makeSigners } from './signers.ts'
export { makeTransmitter } from './transmit.ts'

export interface DeliverTools extends AttemptTools, JobTools, HeartbeatTools, MemoryTools {
  readonly recorder: Recorder
  readonly transmitter: Transmitter
  readonly gate: Gate
  readonly journal: Journal
  /** Fires when a stop waits for the database no longer. */
  readonly patience: AbortSignal
  /** Calls back when something may be due. */
  onDue(wake: () => void): { stop(): Promise<void> }
}

const idleMs = 1_000

export function deliverer(
  tools: DeliverTools,
): Service & { readonly inFlight: number; readonly loginsRefused: number } {
  const owner = randomUUID()
  const flights = new Map<string, InFlight>()
  const logins = makeLogins(tools.log)
  const deferrals = makeDeferrals(tools.log)
  const backAgain = makeBackAgain({
    timeScale: tools.timeScale,
    hasten: async (some) => {
      const hastened = await hastenPutOff(tools.db, some)
      if (hastened.size > 0) claims.poke()
    },
    namesAnswer: () => tools.transmitter.namesAnswer(),
    wayOut: isThereAWayOut,
  })
  const slots = makeSlots((provider) => tools.transmitter.roomOf(provider))
  const contentRoom = makeRoom<InFlight>(limits.contentInFlightBytesMax, limits.contentOfWorkspaceBytesMax)
  /** What of it exists a second time, for a host without 8BITMIME. Whoever holds some of it waits for nobody: it is given back before the next host. */
  const convertedRoom = makeRoom<InFlight>(limits.convertedInFlightBytesMax, limits.convertedOfWorkspaceBytesMax)
  const memory = makeMemory(tools)
  const tryOnce = makeAttempts(
    tools,
    makeJobs(tools, slots, convertedRoom, makeMemory(tools)),
    ({ claimed }, route, result) => {
      logins.note(claimed, route, result)
      deferrals.note(claimed, result)
    },
  )
  const unheard = makeUnheard(tools)
  const cursors = makeLaneCursors()
  let due: { stop(): Promise<void> } | undefined

  const outages = makeOutages(tools.leaseMs)
  const trouble = (what: string) => (error: unknown) => {
    tools.log.fault(what, error)
    if (isDatabaseAway(error)) outages.failed()
  }
  /** Of what keeps or ends leases. */
  const graveTrouble = (what: string) => (error: unknown) => {
    tools.log.fault(what, error)
    if (isDatabaseAway(error)) outages.missed()
  }

  const heartbeat = makeHeartbeat(tools, flights, outages, graveTrouble('heartbeat'))
  const expiry = makeExpiry(tools)

  const freeSlots = () => limits.messagesInFlightMax - flights.size

  const claims = makeClaimLoop<ClaimAnswer>({
    first: leastId,
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

  const reaper = makeReaper(tools, heartbeat, outages, claims, trouble)

  const launch = (claimed: Claimed, claimedAt: number) => {
    const name = claimName(claimed)
    const flight = flightOf(claimed, claimedAt, tools.leaseMs)
    // Delivery was stopped while the claim was on its way.
    if (!tools.gate.isOpen()) flight.giveUp.abort()
    flights.set(name, flight)
    slots.launched(slotsNameOf(claimed), claimed.workspaceId)
    void attempt(flight).finally(() => {
      flights.delete(name)
      const opened = slots.landed(slotsNameOf(claimed), claimed.workspaceId, flight.landing)
      if (opened || freeSlots() === limits.claimLeast || freeSlots() === limits.claimMany) claims.poke()
      if (flights.size === 0) quiet()
    })
  }

  /** From the claim to the record. Never rejects. */
  const attempt = async (flight: InFlight): Promise<void> => {
    // Whoever waits for memory is in nobody's way; and in the room, waits for none. Small texts are not counted: nothing to hold, nobody to wait for.
    const { contentBytes, giveUp } = flight
    const leaveMemory = await memory.enter(flight, contentBytes, giveUp.signal)
    const gone = contentBytes > 0 ? await contentRoom.enter(flight, contentBytes, giveUp.signal) : () => undefined
    flight.heardAt = performance.now()
    let ending: Ending | undefined
    try {
      ending = await tryOnce(flight, { made: () => leaveMemory(false), gone })
    } finally {
      gone()
      leaveMemory(true)
    }
    if (ending !== undefined) await unheard.tell(ending, flight)
    if (flight.result !== undefined) backAgain.note(flight.claimed, flight.result, ending)
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
      const name = slotsNameOf(flight.claimed)
      const many = surplus.get(name) ?? 0
      if (many === 0 || flight.armAsked || flight.gaveWay) continue
      surplus.set(name, many - 1)
      giveWay(flight)
    }
  }

  const readLimits = async (): Promise<void> => tools.transmitter.configure(await listDestinationLimits(tools.db))

  const lookAtLogins = (): Promise<void> => logins.look((whose) => routesWaitedFor(tools.db, whose))

  let quiet: () => void = () => undefined
  const timers = [
    repeating(heartbeat.pauseMs, heartbeat.beat, graveTrouble('heartbeat')),
    repeating(() => Math.min(1_000, tools.leaseMs / 4), reaper.look, graveTrouble('reap')),
    repeating(() => limits.journalAfterMs / 4, unheard.journalLate, trouble('journal')),
    repeating(() => limits.slotsLookMs, makeWay, trouble('slots')),
    // It hears of outages that others see, too, and waits on: what it looks for has waited for long.
    repeating(expiry.pauseMs, expiry.look, (error) => tools.log.fault('expiry', error)),
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
      reaper.begin()
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
