// The door: from an event in the outbox to a customer who knows. Claim, sign, post, record; patient, and fair to all endpoints (decisions G).
// No transaction is open while a request is made. Events of one message go one after the other, in the order of their sequence, unless an
// earlier one waits for a retry. One loop claims, and a heartbeat keeps what is claimed.
import { limits } from '../config.ts'
import { pause } from '../base/backoff.ts'
import { makeClaimLoop } from '../base/claim-loop.ts'
import type { Log } from '../base/log.ts'
import { repeating } from '../base/repeating.ts'
import { lifecycle, type Service } from '../base/service.ts'
import type { Vault } from '../base/secret.ts'
import { isDatabaseAway, surelyAborted, type Db } from '../store/database.ts'
import { makeWebhookClaims } from '../store/webhook-claims.ts'
import {
  extendWebhookLeases,
  reapWebhooks,
  webhookTryName,
  type ClaimedWebhook,
  type WebhookClaimAnswer,
} from '../store/webhooks.ts'
import { makeWebhookRecorder, type WebhookResult } from '../store/webhook-results.ts'
import { hastenWebhooks } from '../store/housekeeping.ts'
import { sendersThere } from '../store/webhook-senders.ts'
import { leastId } from '../store/message-id.ts'
import { webhookEventOf } from './event-body.ts'
import { makeKnownEndpoints } from './known-endpoints.ts'
import type { Poster } from './post.ts'
import { makeShares } from './shares.ts'
import { signedHeaders } from './signature.ts'
import { ladderMs, verdictOf } from './verdict.ts'

export { catchUp } from './catch-up.ts'
export { makeWebhookDesk } from './desk.ts'
export type { WebhookDesk } from './desk.ts'
export { makeTargets } from './public-address.ts'

export interface WebhookTools {
  /** For claims, heartbeats and look-ups. */
  readonly db: Db
  /** For results alone. */
  readonly resultDb: Db
  readonly poster: Poster
  readonly vault: Vault
  readonly log: Log
  readonly version: string
  readonly leaseMs: number
  /** Divides the delays between tries, and the 120 h. */
  readonly timeScale: number
  /** Fires when a stop waits for the database no longer. */
  readonly patience: AbortSignal
  /** Calls back when there may be something to post. */
  onDue(wake: () => void): { stop(): Promise<void> }
}

interface Flight extends ClaimedWebhook {
  /** On the clock of `performance.now()`, as what follows. */
  readonly claimedAt: number
  /** Moved on by the heartbeat. From then on somebody else may be posting it. */
  leaseEndsAt: number
}

/** An event that was not asked, and when its row was free again, on the same clock. */
interface GivenBack {
  readonly sequence: number
  readonly at: number
}

const idleMs = 1_000
/** How often the database may refuse to write one result before its claim is left to the reaper. */
const refusalsMax = 5
/** Of a try that went wrong here: no version of the endpoint has failed. */
const noVersion = 0

export function webhookSender(tools: WebhookTools): Service & { readonly inFlight: number } {
  const outbox = makeWebhookClaims(tools.db, tools.leaseMs)
  const endpoints = makeKnownEndpoints(tools.db, tools.vault)
  const shares = makeShares()
  const flights = new Set<Flight>()
  /** What the last one under way of each message leaves to the next, which waits for it: those before it that were not asked. */
  const tails = new Map<string, Promise<readonly GivenBack[]>>()
  /** When a lack of our own last kept a request from being made. */
  let lackedAt = -Infinity
  /** And no request was made since: one event at a time finds out. */
  let lacking = false
  let running = false
  let due: { stop(): Promise<void> } | undefined
  let giveUpAt = Infinity
  /** When leases were looked at last, by the date: other clocks stand still while the machine sleeps. */
  let lookedAt = 0
  /** Database time less `performance.now()`, as the last claim told it: receivers refuse what this machine's own date may say. */
  let databaseClockMs = 0
  const now = () => databaseClockMs + performance.now()
  /** When the last claim was, by the database's clock. */
  let lastNow = -Infinity
  /** Nobody here knows whether that clock was set back before the first look. */
  let wasSetBack = true

  const there = sendersThere(tools.db)
  const recorder = makeWebhookRecorder(tools.resultDb, {
    there,
    failingMs: limits.webhookFailingMs / tools.timeScale,
    disabled: (workspaceId, reason) => tools.log.notified({ workspaceId, outcome: 'endpoint_disabled', reason }),
    more: () => claims.poke(),
  })

  const claims = makeClaimLoop<WebhookClaimAnswer>({
    first: leastId,
    least: limits.webhookClaimLeast,
    // Fewer, fuller claims: an event that comes after a pause still goes at once.
    spacingMs: limits.webhookSpacingMs,
    restMs: () => Math.max(20, idleMs / tools.timeScale),
    waitMs: () =>
      shares.free < limits.webhookClaimLeast ? Infinity : lackedAt + limits.webhookLackMs - performance.now(),
    claim: async (cursor, since) => {
      // The rooms are those of before it: half of what is free at most, so that they are counted anew before that is gone.
      const most = lacking ? 1 : Math.min(shares.free >> 1, limits.webhookClaimMost)
      await there()
      return outbox.claim({ cursor, since, ...shares.rooms(), most })
    },
    launch: (part, askedAt) => {
      databaseClockMs = part.now.getTime() - askedAt
      wasSetBack ||= part.now.getTime() < lastNow
      lastNow = part.now.getTime()
      for (const claimed of part.claimed) launch(claimed, askedAt)
      return part.claimed.length + part.dropped > 0
    },
    trouble: (error) => tools.log.fault('webhook claim', error),
  })

  const launch = (claimed: ClaimedWebhook, claimedAt: number): void => {
    const before = tails.get(claimed.messageId)
    const flight: Flight = { ...claimed, claimedAt, leaseEndsAt: claimedAt + tools.leaseMs }
    flights.add(flight)
    shares.begin(claimed.workspaceId)
    // Behind an earlier event that was not asked it would come out of turn, also where others were asked in between: those may have been claimed again before the
    // earlier one was given back. A claim that began behind that has seen it.
    const isBehind = ({ sequence, at }: GivenBack) => sequence < claimed.sequence && at >= claimedAt
    const posted =
      before === undefined
        ? post(flight)
        : before.then((given) => (given.some(isBehind) ? unaskedOf(flight) : post(flight)))
    const recorded = posted.then(recordSurely)
    const tail = posted.then(async ({ asked }) => {
      const given = ((await before) ?? []).filter(({ sequence }) => sequence !== claimed.sequence)
      if (!asked) {
        await recorded
        given.push({ sequence: claimed.sequence, at: performance.now() })
        // A claim that is under way has not seen that.
        await claims.launched()
      }
      if (tails.get(claimed.messageId) === tail) tails.delete(claimed.messageId)
      return given
    })
    tails.set(claimed.messageId, tail)
    void recorded.finally(() => {
      flights.delete(flight)
      const wanted = shares.end(claimed.workspaceId)
      if (wanted || shares.free === limits.webhookClaimLeast) claims.poke()
      if (flights.size === 0) quiet()
    })
  }

  const unaskedOf = (flight: Flight): WebhookResult => ({ ...flight, asked: false, delivered: false })

  /** It is due again at once, here or at another node that lacks nothing. */
  const lacked = (): void => {
    lackedAt = performance.now()
    lacking = true
  }
  const lackIsOver = (): void => {
    lacking = false
    claims.lookAnew()
  }

  /** One try. Never rejects; what could not even begin gives its try back. */
  const post = async (flight: Flight): Promise<WebhookResult> => {
    const { claimedAt, ...claimed } = flight
    const unasked = unaskedOf(flight)
    const lost: WebhookResult = { ...unasked, asked: true, trouble: 'worker_lost', version: noVersion }
    const mayAsk = () => running && performance.now() < flight.leaseEndsAt
    if (!mayAsk()) return unasked
    try {
      // Retention was quicker: there is nothing to tell any more.
      if (claimed.event === null) return lost
      // Behind a receiver that hangs it may have waited for long: since then the endpoint may have been disabled, or got another URL or secret.
      const isLate = performance.now() - claimedAt > limits.webhookClaimFreshMs
      const keptMs = isLate ? limits.webhookClaimFreshMs : limits.webhookEndpointKeptMs
      const endpoint = await endpoints.get(claimed.workspaceId, claimed.version, keptMs)
      // The database may have taken its time to tell.
      if (endpoint === undefined || !endpoint.active || !mayAsk()) return unasked
      const event = webhookEventOf(claimed.workspaceId, claimed.event, endpoint.apiVersion)
      const body = Buffer.from(JSON.stringify(event))
      const facts = await tools.poster.post({
        workspaceId: claimed.workspaceId,
        url: endpoint.url,
        headers: [
          'Content-Type',
          'application/json',
          'User-Agent',
          `Posthorn/${tools.version}`,
          ...signedHeaders(endpoint.signers(), event.id, Math.floor(now() / 1000), body),
        ],
        body,
        now,
      })
      if (facts.lack !== undefined) {
        if (running) tools.log.fault('webhook', new Error(`${facts.lack}: webhooks wait, and use no try`))
        lacked()
        return unasked
      }
      if (lacking) lackIsOver()
      const verdict = verdictOf(facts, claimed.attempt, tools.timeScale)
      if (verdict.delivered) shares.grow(claimed.workspaceId)
      else shares.shrink(claimed.workspaceId, facts.durationMs, verdict.restMs)
      tools.log.notified({
        workspaceId: claimed.workspaceId,
        eventId: event.id,
        type: event.type,
        attempt: claimed.attempt,
        outcome: verdict.delivered ? 'delivered' : verdict.delayMs === undefined ? 'given_up' : 'retry',
        status: facts.status,
        trouble: facts.trouble,
        ms: facts.durationMs,
      })
      // A stop that waited no longer is a try, for it may have arrived, and no failure of the endpoint.
      const version = facts.trouble === 'shutdown' ? noVersion : endpoint.version
      return { ...claimed, version, asked: true, ...facts, ...verdict }
    } catch (error) {
      tools.log.fault('webhook', error, { workspaceId: claimed.workspaceId, messageId: claimed.messageId })
      // It could not tell what the endpoint is; a request is nothing that it knows of.
      if (isDatabaseAway(error)) {
        lacked()
        return unasked
      }
      // The claim stays counted; when it may be tried again is the ladder's to say. A secret that this node has no key for is no failure of the endpoint.
      const delayMs = ladderMs(tools.timeScale)[claimed.attempt - 1]
      return { ...lost, ...(delayMs !== undefined && { delayMs }) }
    }
  }

  /** Writes a result until the database has answered; what cannot be written is left to the reaper. */
  const recordSurely = async (result: WebhookResult): Promise<void> => {
    let refusals = 0
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, 2_000)) {
      try {
        return await recorder.record(result)
      } catch (error) {
        tools.log.fault('webhook result', error, { workspaceId: result.workspaceId, messageId: result.messageId })
        if (surelyAborted(error) && !isDatabaseAway(error) && ++refusals === refusalsMax) return
        if (performance.now() > giveUpAt || tools.patience.aborted) return
        await pause(delayMs)
      }
    }
  }

  const trouble = (what: string) => (error: unknown) => tools.log.fault(what, error)

  const heartbeat = async (): Promise<void> => {
    const held = [...flights]
    if (held.length === 0) return
    const askedAt = performance.now()
    const ours = await extendWebhookLeases(tools.db, held, tools.leaseMs)
    for (const flight of held) if (ours.has(webhookTryName(flight))) flight.leaseEndsAt = askedAt + tools.leaseMs
  }
  /** What was written while the clock was ahead is due now. */
  const heedClock = async (): Promise<void> => {
    wasSetBack = false
    await hastenWebhooks(tools.db).catch((error: unknown) => {
      wasSetBack = true
      throw error
    })
    claims.lookAnew()
  }
  const reapSome = async (): Promise<void> => {
    if (wasSetBack) await heedClock().catch(trouble('webhook backlog'))
    // Behind an outage, or a time in which this machine stood still, our own have run out, too; and what was answered is about to be written.
    if (Math.abs(Date.now() - lookedAt) > tools.leaseMs / 2) await heartbeat()
    if (await outbox.giveBackLost()) claims.lookAnew()
    if ((await reapWebhooks(tools.db, ladderMs(tools.timeScale))) > 0) claims.poke()
    lookedAt = Date.now()
  }

  let quiet: () => void = () => undefined
  const timers = [
    repeating(() => tools.leaseMs / 3, heartbeat, trouble('webhook heartbeat')),
    repeating(() => Math.min(1_000, tools.leaseMs / 4), reapSome, trouble('webhook reap')),
  ]
  const service = lifecycle(
    'webhooks',
    () => {
      running = true
      giveUpAt = Infinity
      wasSetBack = true
      lookedAt = Date.now()
      due = tools.onDue(claims.poke)
      for (const timer of timers) timer.start()
      claims.start()
      return Promise.resolve()
    },
    async () => {
      running = false
      giveUpAt = performance.now() + limits.webhookPostMs
      await claims.stop()
      await due?.stop()
      const landed = flights.size === 0 ? Promise.resolve() : new Promise<void>((resolve) => (quiet = resolve))
      const impatience = setTimeout(() => tools.poster.giveUp(), limits.webhookQuietMs)
      await landed
      clearTimeout(impatience)
      for (const timer of timers) await timer.stop()
      // What the last claims took unheard would wait for the end of its lease, and lose a try.
      await outbox.giveBackLost().catch(trouble('webhook stop'))
    },
  )
  return {
    ...service,
    get inFlight() {
      return flights.size
    },
  }
}
