// Checks domains against the DNS: on demand, and those that are due. What was seen moves the domain's state, takes a waiting DKIM key into
// use, and sets or clears its return path, in one transaction with its audit row; then the owners are told what concerns them.
import { together } from '../base/trouble.ts'
import { doneFor } from '../base/turns.ts'
import type { Zones } from '../base/zones.ts'
import { limits } from '../config.ts'
import { afterCheck, type DomainStatus, type DomainVerdict } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { returnPathName } from '../mail/return-path.ts'
import { writeAudit } from '../store/audit.ts'
import { databaseNow, type Db } from '../store/database.ts'
import {
  forgetDkimKeys,
  recordDomainCheck,
  suspendEd25519,
  switchDkimKey,
  takeDueDomains,
  type CheckedDomain,
} from '../store/domain-checks.ts'
import { findDomainById, type DkimKeyRow, type DomainRow } from '../store/domains.ts'
import type { By } from './by.ts'
import { lookAtDomain, type DomainSight } from './domain-sight.ts'
import { presentDomain, type Domain } from './domains.ts'
import { notThere } from './mistake.ts'

/** A change that the owners of the workspace are told. */
export interface DomainChange {
  readonly workspaceId: WorkspaceId
  readonly domain: Domain
  readonly from: DomainStatus
}

export interface DomainChecker {
  /** Undefined where the workspace has no such domain. */
  check(workspace: WorkspaceId, id: string): Promise<Domain | undefined>
  /** Checks what is due, a bounded number; answers how many. Throws when all are done, where some could not be checked. */
  checkDue(): Promise<number>
}

export interface DomainCheckTools {
  readonly db: Db
  readonly zones: Zones
  readonly hostname: string
  /** Called after the change is committed. It must not throw. */
  readonly tell?: (change: DomainChange) => Promise<void>
}

const triesMax = 3
/** A zone whose servers answer when anybody's do. */
const someoneElse = 'com'

export function makeDomainChecker({ db, zones, hostname, tell }: DomainCheckTools): DomainChecker {
  const underWay = new Map<string, Promise<Domain | undefined>>()

  const look = async (workspace: WorkspaceId, id: string): Promise<Domain | undefined> => {
    for (let tries = 1; ; tries++) {
      const row = await findDomainById(db, workspace, id)
      if (row === undefined) return undefined
      const sight = await lookAtDomain(zones, row, hostname)
      const status = await writeDown(db, workspace, row, sight, await verdictOf(sight, row))
      // Somebody checked at the same time, or a key was added that is to be looked for: as fresh as ours, unless it keeps happening.
      if (status === undefined && tries < triesMax) continue
      const after = await findDomainById(db, workspace, id)
      if (after === undefined) return undefined
      const domain = presentDomain(after, hostname)
      if (status !== undefined && status !== row.status)
        await tell?.({ workspaceId: workspace, domain, from: row.status })
      return domain
    }
  }

  /** Before silence breaks a domain, somebody else is asked: where nobody answers, it is our own way out that is broken. */
  const verdictOf = async (sight: DomainSight, { checksUnanswered: before }: DomainRow): Promise<DomainVerdict> => {
    const verdict = shownBy(sight)
    if (verdict !== 'unanswered' || before + 1 < limits.domainUnansweredMax) return verdict
    return (await zones.ask(someoneElse, 'NS')).kind === 'unanswered' ? 'unasked' : verdict
  }

  /** Whoever asks while the same domain is being looked at gets the same answer. */
  const check = (workspace: WorkspaceId, id: string): Promise<Domain | undefined> => {
    const name = `${workspace} ${id}`
    const known = underWay.get(name)
    if (known !== undefined) return known
    const fresh = doneFor(workspace, () => look(workspace, id)).finally(() => underWay.delete(name))
    underWay.set(name, fresh)
    return fresh
  }

  const checkDue = async (): Promise<number> => {
    const due = await takeDueDomains(db, limits.domainCheckMs, {
      most: limits.domainChecksPerRound,
      mostOfOne: limits.domainChecksOfWorkspacePerRound,
    })
    const line = due.values()
    const failures: unknown[] = []
    const work = async () => {
      for (const { workspace_id: workspace, id } of line)
        await check(workspace, id).catch((error: unknown) => failures.push(error))
    }
    await Promise.all(Array.from({ length: limits.domainChecksAtOnce }, work))
    if (failures.length > 0) throw together(failures)
    return due.length
  }
  return { check, checkDue }
}

export async function checkDomainFor(
  { domains }: { readonly domains: Pick<DomainChecker, 'check'> },
  by: By,
  id: string,
): Promise<Domain> {
  const domain = await domains.check(by.workspaceId, id)
  if (domain === undefined) throw notThere('domain')
  return domain
}

/** The state that it has now; undefined where somebody else has written meanwhile. */
async function writeDown(
  db: Db,
  workspaceId: WorkspaceId,
  row: DomainRow,
  sight: DomainSight,
  verdict: DomainVerdict,
): Promise<DomainStatus | undefined> {
  const { id, name } = row
  const now = await databaseNow(db)
  const next = afterCheck(
    { status: row.status, createdAt: row.createdAt, degradedAt: row.brokenSince, unanswered: row.checksUnanswered },
    verdict,
    now,
  )
  const { returnPath } = sight
  const host = !returnPath.answered
    ? row.returnPathHost
    : returnPath.sight.status === 'verified'
      ? returnPathName(name)
      : null
  const seen = sight.keys.flatMap(({ key, sight: { status } }) =>
    key.state === 'pending' && status === 'verified' ? [key.selector] : [],
  )
  // A key whose record is gone signs nothing that anybody can verify, whatever its time.
  const withdrawn = sight.keys.flatMap((k) => (k.answered && k.sight.status !== 'verified' ? [k.key.selector] : []))
  const check: CheckedDomain = {
    workspaceId,
    id,
    was: {
      status: row.status,
      checkedAt: row.checkedAt,
      vouched: row.vouched,
      waiting: row.keys.filter(({ state }) => state === 'pending').map(({ selector }) => selector),
    },
    ...next,
    // The operator's word stands, whatever the DNS says.
    ...(row.vouched && { status: row.status, degradedAt: null }),
    checkInMs: checkInMs(row, row.vouched ? null : next.checkInMs, seen, withdrawn),
    returnPathHost: host,
    found: sight.found,
  }
  return db.transaction(async (tx) => {
    if (!(await recordDomainCheck(tx, check))) return undefined
    const audit = (action: string, facts: object) =>
      writeAudit(tx, { workspaceId, actor: 'posthorn', action, target: name, facts })
    if (check.status !== row.status) await audit(`domain.${check.status}`, { from: row.status })
    if (check.returnPathHost !== row.returnPathHost) await audit('domain.return_path', { host: check.returnPathHost })
    for (const selector of seen)
      if (await switchDkimKey(tx, workspaceId, id, selector)) await audit('domain.dkim_switched', { selector })
    const suspended = await suspendEd25519(tx, workspaceId, id, withdrawn)
    if (suspended.length > 0) await audit('domain.dkim_suspended', { selectors: suspended })
    const forgotten = await forgetDkimKeys(tx, workspaceId, id, limits.dkimRetiredMs, withdrawn)
    if (forgotten.length > 0) await audit('domain.dkim_forgotten', { selectors: forgotten })
    return check.status
  })
}

/** Keys that wait for their record are looked for soon, and those that are to be forgotten are not forgotten. */
function checkInMs(
  { keys }: DomainRow,
  usually: number | null,
  seen: readonly string[],
  withdrawn: readonly string[],
): number | null {
  const soonest = (ms: number): number => Math.min(usually ?? ms, ms)
  const isBeside = ({ algorithm }: DkimKeyRow) => algorithm === 'ed25519-sha256'
  const waits = (key: DkimKeyRow) =>
    !seen.includes(key.selector) &&
    (key.state === 'pending' || (isBeside(key) && key.state === 'active' && withdrawn.includes(key.selector)))
  if (keys.some(waits)) return soonest(limits.domainDegradedMs)
  // The one beside is no longer used where its record is gone, also of a domain whose own state no check changes.
  const isWatched = (key: DkimKeyRow) => key.state === 'retired' || isBeside(key)
  return seen.length > 0 || keys.some(isWatched) ? soonest(limits.domainVerifiedMs) : usually
}

/** Ownership, and an RSA key that signs or can begin to: most receivers verify no other. */
function shownBy({ ownership, keys: all }: DomainSight): DomainVerdict {
  const keys = all.filter(({ key }) => key.algorithm === 'rsa-sha256')
  const waiting = keys.find(({ key, sight }) => key.state === 'pending' && sight.status === 'verified')
  const signing = waiting ?? keys.find(({ key }) => key.state === 'active')
  const needed = [ownership, ...(signing === undefined ? [] : [signing])]
  if (needed.length === 2 && needed.every(({ sight }) => sight.status === 'verified')) return 'good'
  return needed.some(({ answered, sight }) => answered && sight.status !== 'verified') ? 'bad' : 'unanswered'
}
