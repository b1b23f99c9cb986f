// From a queued message to an outcome: claim, prepare, transmit (arm inside), record; no transaction is open while we talk to anyone
// (delivery-semantics). One loop claims, as many attempts run at once as there are slots, and a heartbeat keeps their leases.
import { randomUUID } from 'node:crypto'
import { limits } from '../config.ts'
import type { Route } from '../config.ts'
import type { Log } from '../base/log.ts'
import { lifecycle, type Service } from '../base/service.ts'
import type { Vault } from '../base/secret.ts'
import type { Db } from '../store/database.ts'
import {
  claimDue,
  claimName,
  extendLeases,
  firstLane,
  reap,
  type Claimed,
  type Ending,
  type Recorder,
} from '../store/outbound.ts'
import type { ArmAnswer } from './conversation.ts'
import { makePreparer } from './prepare.ts'
import { endingOf, unattempted } from './record.ts'
import type { Transmitter } from './transmit.ts'

export { makeTransmitter } from './transmit.ts'

export interface DeliverTools {
  readonly db: Db
  readonly recorder: Recorder
  readonly transmitter: Transmitter
  readonly vault: Vault
  readonly log: Log
  readonly leaseMs: number
  readonly timeScale: number
  /** The installation's route. */
  readonly route: Route
  /** A workspace's own route, out of its sealed column. */
  openRoute(workspaceId: string, sealed: Buffer): Route
  /** Calls back when something may be due. */
  onDue(wake: () => void): { stop(): Promise<void> }
}

interface InFlight {
  readonly claimed: Claimed
  /** Aborted when the lease is lost, and at a shutdown: a dot that is not written by then never is. */
  readonly giveUp: AbortController
  /** The row is somebody else's: it is not on the heartbeat's list any more. */
  lost: boolean
  /** On the clock of `performance.now()`; moved on by the heartbeat. */
  leaseEndsAt: number
}

const triesMax = limits.retryScheduleSeconds.length + 1
const idleMs = 1_000
const composeTriesMax = 3

/** Runs `work` again and again, `pause` milliseconds after it has ended; `stop` waits for the one under way. */
function repeating(pause: () => number, work: () => Promise<void>, trouble: (error: unknown) => void) {
  let timer: NodeJS.Timeout | undefined
  let working: Promise<void> = Promise.resolve()
  let on = false
  const again = () => {
    timer = setTimeout(() => {
      working = work()
        .catch(trouble)
        .then(() => {
          if (on) again()
        })
    }, pause())
  }
  return {
    start: () => {
      on = true
      again()
    },
    stop: () => {
      on = false
      clearTimeout(timer)
      return working
    },
  }
}

export function deliverer(tools: DeliverTools): Service & { readonly inFlight: number } {
  const owner = randomUUID()
  const preparer = makePreparer(tools.db, tools.vault)
  const flights = new Map<string, InFlight>()
  const perDestination = new Map<string, number>()
  let running = false
  let contentBytes = 0
  let cursor = firstLane
  let lanesSeen = 1
  let foundInWalk = false
  let wake: () => void = () => undefined
  let woken = false
  let due: { stop(): Promise<void> } | undefined
  let nextReapAt = 0

  const poke = () => {
    woken = true
    wake()
  }

  const sleep = (ms: number): Promise<void> => {
    if (woken) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** One claim; true when there may be more to claim at once. */
  const claimSome = async (): Promise<boolean> => {
    const most = Math.min(limits.messagesInFlightMax - flights.size, limits.claimMost)
    if (most < limits.claimLeast || contentBytes > limits.contentInFlightBytesMax) return false
    const busy = [...perDestination].flatMap(([destination, count]) =>
      count >= limits.claimShareMax ? [destination] : [],
    )
    const claimedAt = performance.now()
    const share = Math.max(1, Math.ceil(most / lanesSeen))
    const answer = await claimDue(tools.db, { cursor, share, most, busy, leaseMs: tools.leaseMs, owner })
    cursor = answer.cursor
    lanesSeen = Math.max(1, answer.lanes)
    for (const refused of answer.refused)
      tools.log.attempted({ messageId: refused.id, outcome: 'failed', reason: refused.reason })
    for (const claimed of answer.claimed) launch(claimed, claimedAt)
    if (answer.claimed.length + answer.refused.length > 0) foundInWalk = true
    if (cursor !== firstLane) return true
    // A whole walk over the lanes without anything due: rest. (Who made something due behind the cursor has woken us.)
    const again = foundInWalk
    foundInWalk = false
    return again
  }

  const launch = (claimed: Claimed, claimedAt: number) => {
    const name = claimName(claimed)
    const flight: InFlight = {
      claimed,
      giveUp: new AbortController(),
      lost: false,
      leaseEndsAt: claimedAt + tools.leaseMs,
    }
    flights.set(name, flight)
    perDestination.set(claimed.destination, (perDestination.get(claimed.destination) ?? 0) + 1)
    contentBytes += claimed.attachmentsBytes
    void attempt(flight).finally(() => {
      flights.delete(name)
      const left = (perDestination.get(claimed.destination) ?? 1) - 1
      if (left === 0) perDestination.delete(claimed.destination)
      else perDestination.set(claimed.destination, left)
      contentBytes -= claimed.attachmentsBytes
      if (flights.size <= limits.messagesInFlightMax - limits.claimLeast) poke()
      if (!running && flights.size === 0) quiet()
    })
  }

  /** One attempt, from the claim to the record. Never rejects. */
  const attempt = async (flight: InFlight): Promise<void> => {
    const { claimed, giveUp } = flight
    const startedAt = new Date()
    const schedule = () => ({ timeScale: tools.timeScale, now: new Date(), startedAt })
    let ending: Ending | undefined
    try {
      const prepared = await preparer.prepare(claimed)
      if (prepared === undefined) ending = unattempted(claimed, { kind: 'failed', reason: 'content_lost' }, schedule())
      else {
        const route =
          claimed.routeSealed === null ? tools.route : tools.openRoute(claimed.workspaceId, claimed.routeSealed)
        const result = await tools.transmitter.transmit({
          ...prepared,
          route,
          arm: () => armSurely(claimed),
          // A tenth of the lease stays as a margin: past it another worker may be deciding.
          deadline: () => flight.leaseEndsAt - tools.leaseMs / 10,
          signal: giveUp.signal,
        })
        ending = endingOf(claimed, result, schedule())
        const { phase, reply, trouble, peer } = result
        tools.log.attempted({
          messageId: claimed.id,
          workspaceId: claimed.workspaceId,
          attempt: claimed.attempt,
          domain: claimed.destination,
          outcome: ending?.outcome ?? 'decided elsewhere',
          phase,
          code: reply?.code,
          trouble,
          host: peer?.host,
          tls: peer?.tls,
          ms: Date.now() - startedAt.getTime(),
        })
      }
    } catch (error) {
      tools.log.fault('attempt', error, { messageId: claimed.id })
      ending = unattempted(
        claimed,
        claimed.attempt >= composeTriesMax
          ? { kind: 'failed', reason: 'not_composable' }
          : { kind: 'retry', reason: 'worker_lost' },
        schedule(),
      )
    }
    if (ending !== undefined) await recordSurely(flight, ending)
  }

  const armSurely = async (claimed: Claimed): Promise<ArmAnswer> => {
    try {
      return await tools.recorder.arm(claimed)
    } catch (error) {
      // Committed or not, nobody knows: the dot is renounced for good, and the record says so until it is heard.
      tools.log.fault('arm', error, { messageId: claimed.id })
      return 'failed'
    }
  }

  /** Writes the end of a claim until the database has answered. What is still unheard at the end of the process, the reaper decides. */
  const recordSurely = async (flight: InFlight, ending: Ending): Promise<void> => {
    for (let delayMs = 50, asked = 1; ; delayMs = Math.min(delayMs * 2, 2_000), asked++) {
      try {
        const done = await tools.recorder.finish(ending)
        // Asked again after an answer that never came, "not yours any more" may be our own doing.
        if (!done && asked === 1)
          tools.log.fault('finish', new Error('the claim was decided elsewhere'), {
            messageId: ending.id,
            epoch: ending.epoch,
          })
        return
      } catch (error) {
        tools.log.fault('finish', error, { messageId: ending.id })
        if (!running && performance.now() > flight.leaseEndsAt) return
        await new Promise((resolve) => setTimeout(resolve, delayMs))
      }
    }
  }

  const heartbeat = async (): Promise<void> => {
    const held = [...flights.values()].filter((flight) => !flight.lost)
    if (held.length === 0) return
    const askedAt = performance.now()
    const ours = await extendLeases(
      tools.db,
      held.map((flight) => flight.claimed),
      tools.leaseMs,
    )
    for (const flight of held)
      if (ours.has(claimName(flight.claimed))) flight.leaseEndsAt = askedAt + tools.leaseMs
      else if (flights.has(claimName(flight.claimed))) {
        flight.lost = true
        flight.giveUp.abort()
      }
  }

  const isRunning = () => running
  const claimLoop = async (): Promise<void> => {
    while (isRunning()) {
      woken = false
      try {
        if (await claimSome()) continue
      } catch (error) {
        tools.log.fault('claim', error)
        nextReapAt = performance.now() + tools.leaseMs // after an outage, those who hold replies come first
        await sleep(500)
        continue
      }
      await sleep(Math.max(20, idleMs / tools.timeScale))
    }
  }

  const reapSome = async (): Promise<void> => {
    if (performance.now() < nextReapAt) return
    for (const { id, becomes } of await reap(tools.db, triesMax)) {
      tools.log.attempted({ messageId: id, outcome: becomes, reason: 'worker_lost' })
      poke()
    }
  }

  let claiming: Promise<void> = Promise.resolve()
  let quiet: () => void = () => undefined
  const timers = [
    repeating(
      () => tools.leaseMs / 3,
      heartbeat,
      (error) => tools.log.fault('heartbeat', error),
    ),
    repeating(
      () => Math.min(1_000, tools.leaseMs / 4),
      reapSome,
      (error) => tools.log.fault('reap', error),
    ),
  ]
  const service = lifecycle(
    'deliver',
    async () => {
      running = true
      await tools.transmitter.service.start()
      due = tools.onDue(poke)
      for (const timer of timers) timer.start()
      claiming = claimLoop()
    },
    async () => {
      running = false
      poke()
      await claiming
      await due?.stop()
      // Unarmed work is handed back; past the dot an attempt goes on to its reply, within the time for a shutdown, and its lease with it.
      for (const flight of flights.values()) flight.giveUp.abort()
      const landed = flights.size === 0 ? Promise.resolve() : new Promise<void>((resolve) => (quiet = resolve))
      await tools.transmitter.service.stop()
      await landed
      for (const timer of timers) await timer.stop()
    },
  )
  return {
    ...service,
    get inFlight() {
      return flights.size
    },
  }
}
