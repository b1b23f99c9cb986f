// The role `deliver`: the workers, the sandbox that they can deliver to, and the housekeeping of the database.
import { setTimeout as wait } from 'node:timers/promises'
import { BoundedMap } from '../base/bounded-map.ts'
import type { Log } from '../base/log.ts'
import type { Measured } from '../base/metrics.ts'
import type { Vault } from '../base/secret.ts'
import type { Service } from '../base/service.ts'
import { limits, type Route, type Settings } from '../config.ts'
import {
  beatAnswerMs,
  deliverer,
  makeFence,
  makeHandOver,
  makeSigners,
  makeTransmitter,
  openJournal,
  openMark,
  readMark,
  type Fence,
} from '../deliver/deliver.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { housekeeper } from './housekeeper.ts'
import { closeAll, starting, type Role, type RoleTools } from './role.ts'
import { sandboxServer } from '../smtp/sandbox.ts'
import { openDatabase, type PoolKind } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import type { Retention } from '../store/housekeeping.ts'
import { seatsBeside, takeLeftSeats, takeSeat, type Seat } from '../deliver/seats.ts'
import { makeNudges } from '../store/nudges.ts'
import { makeRecorder } from '../store/outbound.ts'
import { isMailReal, openRoute } from '../store/routes.ts'
import { queueGauges, queueSamples } from './queue-samples.ts'
import { keepStsPolicy, readStsPolicy } from '../store/sts-policies.ts'
import { makeReturnPathKeys } from '../store/return-path-keys.ts'
import { makeSandboxInbox } from '../store/sandbox.ts'

/** Of what workers ask beside arms and endings; a webhook that somebody else's statement makes due is found within a second. */
const writesEvents: ReadonlySet<string> = new Set(['claim', 'claim-rationed', 'reap', 'replay'])

export async function deliver({ settings, connection, patience, vault, log, metrics }: RoleTools): Promise<Role> {
  const seat = takeSeat(settings.POSTHORN_DATA_DIR)
  const own = await openSeat(seat, log)
  let left: OpenSeat[] = []
  const fence = makeFence({
    own,
    left: async () => {
      const seats = takeLeftSeats(settings.POSTHORN_DATA_DIR, seat)
      const opened = await Promise.allSettled(seats.map((each) => openSeat(each, log)))
      left = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
      const failed = opened.find((each) => each.status === 'rejected')
      if (failed === undefined) return left
      // What cannot be read cannot be compared: all of them again, later.
      for (const each of left) await each.release()
      throw failed.reason
    },
    beside: async () => {
      const marks = await Promise.all(seatsBeside(settings.POSTHORN_DATA_DIR, seat).map(readMark))
      return marks.filter((mark) => mark !== undefined)
    },
    name: settings.POSTHORN_HOSTNAME,
    log,
    listen: (heard) => listen(connection, 'posthorn_delivery', heard),
  })
  const looked = firstLook(fence)
  const open = (what: string, connectionsMax: number, first: Pick<PoolKind, 'greet' | 'lockMs' | 'nudge'> = {}) =>
    openDatabase(connection, { name: `posthorn ${what}`, connectionsMax, answerMs: 30_000, ...first })
  const { greet } = fence
  const { lockMs } = limits
  // Whoever claims, arms or ends asks each new connection first which database it leads to: one that took over may lack a claim behind the one that ends.
  const nudges = makeNudges(connection)
  const nudge = nudges.of('posthorn_webhooks')
  const queueDb = open('deliver', 4, {
    greet,
    lockMs,
    nudge: (statement, rows) => {
      // The last row of a claim tells only where it ended.
      if (rows > (statement.startsWith('claim') ? 1 : 0) && writesEvents.has(statement)) nudge()
    },
  })
  const armDb = open('arm', 1, { greet, lockMs })
  const finishDb = open('finish', 1, { greet, lockMs, nudge })
  const leaseMs = settings.POSTHORN_LEASE_SECONDS * 1000
  const leaseDb = openDatabase(connection, {
    name: 'posthorn leases',
    connectionsMax: 1,
    answerMs: beatAnswerMs(leaseMs),
  })
  const inboxDb = open('sandbox', 1)
  const houseDb = open('house', 1)
  // The simulator's reports go the way of any provider's: by SMTP to the bounce mailbox, wherever that runs.
  const reports = makeHandOver({
    host: reachable(settings.POSTHORN_FEEDBACK_HOST),
    port: settings.POSTHORN_FEEDBACK_PORT,
    hostname: `sandbox.${simulatorDomain}`,
    timeoutScale: settings.POSTHORN_SMTP_TIMEOUT_SCALE,
    firstDelayMs: limits.simulatorReportDelayMs,
    log,
  })
  const inbox = makeSandboxInbox(inboxDb, makeReturnPathKeys(inboxDb, vault))
  const sandbox = sandboxServer({ keep: inbox, report: (mail) => reports.give(mail), log })
  const transmitter = makeTransmitter({
    hostname: settings.POSTHORN_HOSTNAME,
    timeoutScale: settings.POSTHORN_SMTP_TIMEOUT_SCALE,
    mxPort: settings.POSTHORN_MX_PORT,
    sandboxPort: () => sandbox.port(),
    dnsServers: settings.POSTHORN_DNS_SERVERS,
    allowPrivateMx: settings.POSTHORN_ALLOW_PRIVATE_MX,
    probes: settings.POSTHORN_DNSSEC_PROBES,
    timeScale: settings.POSTHORN_TIME_SCALE,
    sts: {
      store: {
        read: (domain) => readStsPolicy(queueDb, domain),
        keep: (domain, policy) => keepStsPolicy(queueDb, domain, policy),
      },
    },
  })
  const signers = makeSigners()
  const service = deliverer({
    db: queueDb,
    leaseDb,
    recorder: makeRecorder(armDb, finishDb, own.mark),
    transmitter,
    gate: fence,
    journal: own.journal,
    vault,
    sign: signers.sign,
    log,
    leaseMs,
    timeScale: settings.POSTHORN_TIME_SCALE,
    retrySchedule: settings.POSTHORN_RETRY_SCHEDULE,
    patience,
    route: settings.POSTHORN_ROUTE,
    openRoute: routeOpener(vault),
    onDue: (wake) => listen(connection, 'posthorn_due', wake),
  })
  metrics.watch(
    'posthorn_messages_in_flight',
    'Messages that this process has claimed and not finished.',
    () => service.inFlight,
  )
  metrics.watch(
    'posthorn_relay_logins_refused',
    "Routes (the installation's, and workspaces' own) whose relay does not take our login.",
    () => service.loginsRefused,
  )
  for (const kind of ['fence', 'pause', 'drain'] as const)
    metrics.watch(`posthorn_delivery_stopped_by_${kind}`, `1 while the ${kind} stops delivery.`, () =>
      fence.stops.some((stop) => stop.kind === kind) ? 1 : 0,
    )
  metrics.watch(
    'posthorn_delivery_stopped_by_node',
    '1 while this node alone delivers nothing: its disk does not take its mark, or it could not compare itself with the database yet.',
    () => (fence.ownStop === undefined ? 0 : 1),
  )
  metrics.watch(
    'posthorn_journal_replies',
    'Replies to final dots that the database has not heard yet.',
    () => own.journal.size,
  )
  const paused = () => [
    ...transmitter
      .paused(limits.pausesShown)
      .map((label) => ({ name: 'posthorn_destination_paused', label, value: 1 })),
    ...transmitter
      .pausedSenders(limits.pausesShown)
      .map(([label, value]) => ({ name: 'posthorn_destination_paused_workspaces', label, value })),
  ]
  metrics.measure(pauseGauges, () => Promise.resolve(paused()), limits.pausesKeptMs)
  metrics.measure(
    queueGauges,
    () => queueSamples(houseDb, () => isMailReal(houseDb, vault, settings.POSTHORN_ROUTE)),
    limits.metricsKeptMs,
  )
  // The fence and the sandbox start before the workers and stop after them. Housekeeping stops last: it may be waiting for the database, and
  // nobody is to claim meanwhile.
  return {
    ownStop: () => fence.ownStop,
    services: [housekeeper(houseDb, retentionOf(settings), log), fence, reports.service, sandbox, service, looked],
    closing: [
      () => signers.stop(),
      ...closeAll(queueDb, leaseDb, armDb, finishDb, inboxDb, houseDb),
      () => nudges.close(),
      async () => void (await Promise.all([own, ...left].map((each) => each.release()))),
    ],
  }
}

/** In memory, and of this process alone (docs/decisions/0035). */
const pauseGauges = {
  posthorn_destination_paused: {
    help: '1 for each provider, or relay, that asked for less and is left alone by this process for now; the 50 longest.',
    label: 'provider',
  },
  posthorn_destination_paused_workspaces: {
    help: 'For how many workspaces this process leaves a provider alone for now, which asked for less of their mail only; the 50 that have most.',
    label: 'provider',
  },
} as const satisfies Record<string, Measured>

/** Ready when the fence has looked once, so that the start can say what it has stopped; not much later, since a look may wait for others' locks. */
function firstLook(fence: Fence): Service {
  const looked = new Promise<void>((resolve) => fence.onChange(resolve))
  return starting('first look', async () => {
    const late = new AbortController()
    await Promise.race([looked, wait(limits.fenceLookMs, undefined, late).catch(() => undefined)])
    late.abort()
  })
}

type OpenSeat = Awaited<ReturnType<typeof openSeat>>

/** What a seat of the data folder holds, until it is released. */
async function openSeat(seat: Seat, log: Log) {
  const [mark, journal] = await openFiles(seat, log)
  let released: Promise<void> | undefined
  const release = async () => {
    await mark.close()
    await journal.close()
    seat.release()
  }
  return { mark, journal, release: () => (released ??= release()) }
}

type Mark = Awaited<ReturnType<typeof openMark>>
type Journal = Awaited<ReturnType<typeof openJournal>>

async function openFiles(seat: Seat, log: Log): Promise<[Mark, Journal]> {
  let mark: Mark | undefined
  try {
    mark = await openMark(seat.folder)
    return [mark, await openJournal(seat.folder, log)]
  } catch (error) {
    await mark?.close()
    seat.release()
    throw error
  }
}

/** An address to listen on is one to connect to, but for those that stand for all. */
function reachable(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
}

/** Routes of workspaces, opened once each. */
function routeOpener(vault: Vault): (workspaceId: string, sealed: Buffer) => Route {
  const opened = new BoundedMap<string, Route>(limits.principalsMax)
  return (workspaceId, sealed) => {
    const name = `${workspaceId} ${sealed.toString('base64')}`
    const known = opened.get(name)
    if (known !== undefined) return known
    const route = openRoute(vault, workspaceId, sealed)
    opened.set(name, route)
    return route
  }
}

function retentionOf(settings: Settings): Retention {
  return {
    recordsDays: settings.POSTHORN_KEEP_RECORDS_DAYS,
    eventsDays: settings.POSTHORN_KEEP_EVENTS_DAYS,
    contentDays: settings.POSTHORN_KEEP_CONTENT_DAYS,
    auditDays: settings.POSTHORN_KEEP_AUDIT_DAYS,
  }
}
