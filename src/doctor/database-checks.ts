// What the doctor asks the database: whether it can keep the promise, whether it is in step with this machine, and what waits in it.
import { limits } from '../config.ts'
import { causeOfStop } from '../domain/delivery-stop.ts'
import type { Db } from '../store/database.ts'
import { countDomains } from '../store/domain-checks.ts'
import { awaitedNodes, readStops } from '../store/fence.ts'
import { readFirstSecrets, type FirstSecret } from '../store/first-secrets.ts'
import { warningsAboutSnapshots } from '../store/held-snapshots.ts'
import { whyHouseIsNotKept } from '../store/housekeeping.ts'
import { readLastBackup } from '../store/last-backup.ts'
import { readQueueFacts } from '../store/queue-facts.ts'
import { readRefusalFacts } from '../store/refusal-facts.ts'
import { readStandbys, warningAboutStandbys, whyCommitsWait } from '../store/replication.ts'
import {
  clockAheadMs,
  hasRoom,
  oldestTransaction,
  readServerFacts,
  warningsAboutUpkeep,
  whoLocksUsOut,
  whyUnfit,
} from '../store/server-facts.ts'
import { countEndpoints, type EndpointState } from '../store/webhook-endpoints.ts'
import { fail, ok, skipped, warn, type Finding } from './finding.ts'

/** As the dashboard and PostgreSQL count them, so that one database has one size. */
const megabytes = (bytes: number): string =>
  bytes >= 1024 ** 3 ? `${(bytes / 1024 ** 3).toFixed(1)} GB` : `${(bytes / 1024 ** 2).toFixed(0)} MB`

/** `openSeconds`: from when on a transaction is old; `lockMs`: for how long something of ours has waited for a lock. */
export async function checkDatabase(
  db: Db,
  openSeconds: number = limits.doctorTransactionSeconds,
  lockMs: number = limits.doctorLockMs,
): Promise<Finding> {
  const unfit = await whyUnfit(db)
  if (unfit !== undefined) return fail(unfit)
  const { version, sizeBytes, connections, connectionsMax, connectionsBy, synchronousCommit } =
    await readServerFacts(db)
  const facts = `PostgreSQL ${version}, ${megabytes(sizeBytes)}, ${connections} of ${connectionsMax} connections, fsync on`
  if (synchronousCommit === 'off') return fail(`${facts}, but synchronous_commit is off: accepted mail could be lost.`)
  if (!(await hasRoom(db)))
    return fail(
      `${facts}, but its disk is full: mail is refused with 503 until there is room. Make some on that machine.`,
    )
  // What only warns stands behind what fails, which it would hide.
  if (connections > connectionsMax * 0.9)
    return warn(`${facts}. Almost all connections are taken: raise ${connectionsBy}, or run fewer nodes.`)
  const holder = await whoLocksUsOut(db, lockMs)
  if (holder !== undefined)
    return warn(
      `${facts}. Statements of ours wait for a lock that somebody else holds (${holder.whose}), one of them for ${Math.round(holder.seconds)} seconds: what they are for does not happen until it ends. If it is nobody's work (a psql session that was left open), end it: select pg_terminate_backend(process), or rollback prepared.`,
    )
  const unkept = await whyHouseIsNotKept(db)
  const upkeep = [
    ...(unkept === undefined ? [] : [unkept]),
    ...(await warningsAboutUpkeep(db)),
    ...(await warningsAboutSnapshots(db)),
  ]
  if (upkeep.length > 0) return warn([`${facts}.`, ...upkeep].join(' '))
  const open = await oldestTransaction(db, openSeconds)
  if (open === undefined) return ok(`${facts}.`)
  return warn(
    `${facts}. A transaction has been open for ${Math.round(open.seconds / 60)} minutes (${open.whose}): until it ends nothing that was deleted since is cleaned up, so the database grows and slows down, and GET /api/v1/events may wait for it. If it is no backup that runs, end it: select pg_terminate_backend(process), or rollback prepared.`,
  )
}

export async function checkReplication(db: Db): Promise<Finding> {
  const hanging = await whyCommitsWait(db)
  if (hanging !== undefined) return fail(hanging)
  const standbys = await readStandbys(db)
  const warning = warningAboutStandbys(standbys)
  if (warning !== undefined) return warn(warning)
  const { synchronous, asynchronous, hidden } = standbys
  const all = synchronous + asynchronous + hidden
  return all === 0 ? skipped('There is no standby.') : ok(`Standbys: ${all}, of them synchronous: ${synchronous}.`)
}

export async function checkClock(db: Db, now: () => Date): Promise<Finding> {
  const off = await clockAheadMs(db, now)
  const seconds = Math.abs(off / 1000).toFixed(1)
  if (Math.abs(off) < limits.doctorClockMs) return ok('This machine and the database agree.')
  return warn(
    `The database's clock is ${seconds} s ${off < 0 ? 'behind' : 'ahead of'} this machine's. Times that decide are the database's; run a time service (chrony, systemd-timesyncd) on both.`,
  )
}

export async function checkDelivery(db: Db): Promise<Finding> {
  const stops = await readStops(db.rows)
  const [worst] = stops
  if (worst === undefined) return ok('Nothing stops it.')
  const said = stops.map(({ kind, reason, since }) => `${kind} (${reason}) since ${since.toISOString()}`).join(', ')
  const fence = stops.find(({ kind }) => kind === 'fence')
  if (fence !== undefined)
    return fail(
      `Delivery is stopped: ${said}. ${causeOfStop(fence.reason) ?? 'An operator has stopped it to recover'}: read docs/restore.md, then posthorn recover --assume-sent-since TIME, or --resume`,
    )
  if (stops.some(({ kind }) => kind === 'drain'))
    return warn(`Delivery is stopped: ${said}. To deliver again: posthorn drain --off`)
  const nodes = (await awaitedNodes(db)).map(({ name, seenAt }) => `${name}, last seen ${seenAt.toISOString()}`)
  return warn(
    `Delivery waits: ${said}. It goes on by itself when every node has confirmed${nodes.length === 0 ? '' : ` (waited for: ${nodes.join('; ')})`}. For one that will never come back: docs/restore.md, then posthorn recover --resume`,
  )
}

export async function checkQueue(db: Db): Promise<Finding> {
  const { byStatus, oldestDueSeconds, truncated } = await readQueueFacts(db)
  const total = byStatus.reduce((sum, { many }) => sum + many, 0)
  const parts = byStatus.map(({ status, many }) => `${many} ${status}`).join(', ')
  const depth =
    total === 0
      ? 'Empty.'
      : `${truncated ? 'More than ' : ''}${total} ${total === 1 ? 'message' : 'messages'} (${parts}).`
  if (oldestDueSeconds < limits.doctorQueueLateSeconds) return ok(depth)
  const minutes = Math.round(oldestDueSeconds / 60)
  return warn(
    `${depth} The oldest is due for ${minutes} minutes: is the role deliver running, is delivery stopped, is a route too slow, or a provider limited (posthorn destination list) or paused? posthorn message show tells what its attempts saw.`,
  )
}

export async function checkRefusals(db: Db, providerOf: (host: string) => string): Promise<Finding> {
  const byProvider = new Map<string, { reports: number; byPolicy: number; messageId: string }>()
  for (const { host, reports, byPolicy, messageId } of await readRefusalFacts(db)) {
    const known = byProvider.get(providerOf(host)) ?? { reports: 0, byPolicy: 0, messageId: '' }
    byProvider.set(providerOf(host), {
      reports: known.reports + reports,
      byPolicy: known.byPolicy + byPolicy,
      messageId: messageId ?? known.messageId,
    })
  }
  const sum = (part: 'reports' | 'byPolicy') => [...byProvider.values()].reduce((total, each) => total + each[part], 0)
  if (sum('reports') === 0) return ok('No receiver has said anything about the mail of the last day.')
  const refusing = [...byProvider]
    .filter(
      ([, { reports, byPolicy }]) =>
        byPolicy >= limits.doctorPolicyLeast && byPolicy > reports * limits.doctorPolicyShare,
    )
    .toSorted(([, one], [, other]) => other.byPolicy - one.byPolicy)
  const worst = refusing[0]?.[1]
  if (worst === undefined)
    return ok(
      `${sum('byPolicy')} of the newest ${sum('reports')} answers about the mail of the last day refuse it by policy.`,
    )
  const named = refusing.slice(0, limits.doctorProvidersShown)
  const said = named.map(([provider, { reports, byPolicy }]) => `${provider} (${byPolicy} of ${reports} answers)`)
  const more = refusing.length - named.length
  return warn(
    `Mail of the last day is refused by policy (reputation, authentication, content) at ${said.join(', ')}${more > 0 ? ` and ${more} more` : ''}. posthorn message show ${worst.messageId} tells the words of one. Look at SPF, DKIM and DMARC (posthorn domain check), at the reverse name, at lists of bad senders, and at who sends what.`,
  )
}

/** `isReal`: whether mail leaves the machine (`isMailReal`). */
export async function checkBackup(db: Db, isReal: () => Promise<boolean>): Promise<Finding> {
  const last = await readLastBackup(db)
  const said =
    last === undefined
      ? 'There was never a backup'
      : `The last backup is ${ageOf(last.ageSeconds)} old${last.bytes === undefined ? '' : `, ${megabytes(last.bytes)}`}`
  if (last !== undefined && last.ageSeconds <= limits.doctorBackupSeconds) return ok(`${said}.`)
  // Where nothing leaves the machine there is nothing to lose.
  if (!(await isReal())) return skipped(`${said}; with the route sandbox that may be so.`)
  return warn(
    `${said}: what was accepted since is lost with the database. ops/posthorn-backup.timer makes one each night (docs/production.md, Backup). Where other tools make them, let them say so: posthorn backup --noted`,
  )
}

const ageOf = (seconds: number): string =>
  seconds < 2 * 86_400 ? `${Math.round(seconds / 3_600)} hours` : `${Math.floor(seconds / 86_400)} days`

const secretsEnd = {
  login: (email) => `the password of ${email} (posthorn user reset ${email})`,
  key: (id) => `the API key (posthorn key revoke ${id})`,
  credential: (id) => `the SMTP password (posthorn smtp-credential revoke ${id})`,
} as const satisfies Record<FirstSecret['kind'], (target: string) => string>

/** A start under systemd or in a container prints into a log that is kept. */
export async function checkFirstSecrets(db: Db, isReal: () => Promise<boolean>): Promise<Finding> {
  const secrets = await readFirstSecrets(db)
  if (secrets.length === 0) return ok('Nothing that the first start printed is good any more.')
  const said = `What the first start printed is still good: ${secrets.map(({ kind, target }) => secretsEnd[kind](target)).join(', ')}`
  if (!(await isReal())) return skipped(`${said}. With the route sandbox that may be so.`)
  return warn(
    `${said}. Whoever reads the log of that start has it. Replace it (docs/production.md, What the first start printed).`,
  )
}

/** The first start's own domain is one of those. */
const byWhom = (many: number, vouched: number): string =>
  `${vouched === many ? '' : `${vouched} of them `}by the word of \`domain add --verified\` or the first start, not by the DNS`

export async function checkDomains(db: Db, canAskZones: () => Promise<boolean>): Promise<Finding> {
  const counts = await countDomains(db)
  if (counts.length === 0) return warn('There is none yet: posthorn domain add')
  const said = counts
    .map(({ status, many, vouched }) => `${many} ${status}${vouched === 0 ? '' : ` (${byWhom(many, vouched)})`}`)
    .join(', ')
  if (!(await canAskZones()))
    return warn(
      `${said}. The name servers of other people's zones do not answer this machine, so no domain can be verified: open port 53 outwards (UDP and TCP), not only to your own name servers.`,
    )
  const broken = counts.filter(({ status }) => status === 'degraded' || status === 'failed')
  return broken.length === 0
    ? ok(`${said}.`)
    : warn(
        `${said}. A degraded domain sends for 72 hours, a failed one no more: posthorn domain check says which record is wrong.`,
      )
}

export async function checkWebhooks(db: Db): Promise<Finding> {
  const counts = await countEndpoints(db)
  if (counts.size === 0) return skipped('No workspace has an endpoint.')
  const many = (state: EndpointState) => counts.get(state)?.many ?? 0
  const named = (state: EndpointState) => {
    const { names = [] } = counts.get(state) ?? {}
    const more = many(state) - names.length
    return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  }
  const off = many('disabled') + many('disabled_by_itself')
  const said = `${many('active') + many('failing')} active${off === 0 ? '' : `, ${off} disabled`}`
  const troubles = [
    many('failing') > 0 &&
      `No try has succeeded for an hour or more in ${named('failing')}: after 120 hours it is disabled, and its owners are told. posthorn webhook show tells since when, posthorn webhook log --event what the tries saw.`,
    many('disabled_by_itself') > 0 &&
      `Disabled by itself within the last 7 days in ${named('disabled_by_itself')}: its receiver is gone, or took nothing for 120 hours. When it works again: posthorn webhook enable, and posthorn webhook replay.`,
  ].filter((each) => each !== false)
  return troubles.length === 0 ? ok(`${said}.`) : warn([`${said}.`, ...troubles].join(' '))
}
