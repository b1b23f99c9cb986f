// What the checks of domains read and write: which are due, what was seen, and the keys that change their place by it. A domain is taken for a
// check by moving its due time ahead, so that nodes share the work and a node that dies leaves it to the next one.
import type { DomainStatus } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { sql, type Db } from './database.ts'

export interface DueDomain {
  readonly workspace_id: WorkspaceId
  readonly id: string
}

// By turns of the workspaces: the checks of one that has very many, and whose name servers say nothing, take long. Locks the rows that it takes, in
// no order: it waits for none.
const takeDue = sql(
  'take-due-domains',
  `with turns as materialized (
     select x.workspace_id, x.id, x.check_due_at, row_number() over (partition by x.workspace_id order by x.check_due_at) turn
       from domains x where x.check_due_at <= app_now()),
   due as materialized (
     select x.workspace_id, x.id from turns t join domains x on x.workspace_id = t.workspace_id and x.id = t.id
      where t.turn <= $3 and x.check_due_at <= app_now()
      order by t.turn, t.check_due_at limit $1 for update of x skip locked)
   update domains d set check_due_at = app_now() + $2 * interval '1 millisecond' from due
    where d.workspace_id = due.workspace_id and d.id = due.id
   returning d.workspace_id, d.id`,
)

export const takeDueDomains = (
  db: Db,
  forMs: number,
  { most, mostOfOne }: { readonly most: number; readonly mostOfOne: number },
): Promise<DueDomain[]> => db.rows<DueDomain>(takeDue, [most, forMs, mostOfOne])

export interface CheckedDomain {
  readonly workspaceId: WorkspaceId
  readonly id: string
  /** What it was when the check began: if it is not any more, or another key waits by now, nothing is written. */
  readonly was: {
    readonly status: DomainStatus
    readonly checkedAt: Date | null
    readonly vouched: boolean
    /** Selectors of the keys that waited for their record. */
    readonly waiting: readonly string[]
  }
  readonly status: DomainStatus
  readonly degradedAt: Date | null
  readonly unanswered: number
  readonly checkInMs: number | null
  readonly returnPathHost: string | null
  readonly found: object
}

// A statement of its own, before the one that looks at the keys: one that was added meanwhile is seen by it.
const holdForCheck = sql(
  'hold-domain-for-check',
  'select id from domains where workspace_id = $1 and id = $2 for no key update',
)
const record = sql(
  'record-domain-check',
  `update domains d
      set status = $5, degraded_at = $6, checks_unanswered = $7, checked_at = app_now(), found = $10::text::json, return_path_host = $9,
          check_due_at = app_now() + $8 * interval '1 millisecond',
          verified_at = case when $5 = 'verified' then coalesce(d.verified_at, app_now()) else d.verified_at end
    where d.workspace_id = $1 and d.id = $2 and d.status = $3 and date_trunc('milliseconds', d.checked_at) is not distinct from $4
      and d.vouched = $11
      and not exists (select from dkim_key_pairs k where k.workspace_id = $1 and k.domain_id = $2 and k.state = 'pending' and k.selector <> all ($12))
   returning d.id`,
)

/** False where somebody else has written meanwhile. To be called in a transaction: locks the domain first. */
export async function recordDomainCheck(tx: Db, check: CheckedDomain): Promise<boolean> {
  const { workspaceId, id, was, status, degradedAt, unanswered, checkInMs, returnPathHost, found } = check
  const next = [status, degradedAt, unanswered, checkInMs, returnPathHost, JSON.stringify(found)]
  const values = [workspaceId, id, was.status, was.checkedAt, ...next, was.vouched, was.waiting]
  await tx.rows(holdForCheck, [workspaceId, id])
  return (await tx.rows(record, values)).length === 1
}

// In this order, since one key of an algorithm at most is active.
const retire = sql(
  'retire-dkim-key',
  `update dkim_key_pairs k set state = 'retired', retired_at = app_now()
    where k.workspace_id = $1 and k.domain_id = $2 and k.state = 'active'
      and exists (select from dkim_key_pairs p where p.workspace_id = $1 and p.domain_id = $2 and p.selector = $3 and p.state = 'pending'
                     and p.algorithm = k.algorithm)
   returning k.selector`,
)
const activate = sql(
  'activate-dkim-key',
  `update dkim_key_pairs k set state = 'active', activated_at = app_now()
    where k.workspace_id = $1 and k.domain_id = $2 and k.selector = $3 and k.state = 'pending' returning k.selector`,
)

/** Signing goes over to a key whose record was seen; false where it is gone meanwhile. To be called in a transaction. */
export async function switchDkimKey(
  tx: Db,
  workspace: WorkspaceId,
  domain: string,
  selector: string,
): Promise<boolean> {
  await tx.rows(retire, [workspace, domain, selector])
  return (await tx.rows(activate, [workspace, domain, selector])).length === 1
}

// One that waits already takes its place: then it is retired, to be forgotten as all that were withdrawn.
const suspend = sql(
  'suspend-dkim-key',
  `with waiting as (
     select from dkim_key_pairs p
      where p.workspace_id = $1 and p.domain_id = $2 and p.algorithm = 'ed25519-sha256' and p.state = 'pending')
   update dkim_key_pairs k
      set state = case when exists (select from waiting) then 'retired' else 'pending' end,
          retired_at = case when exists (select from waiting) then app_now() end, activated_at = null
    where k.workspace_id = $1 and k.domain_id = $2 and k.selector = any ($3) and k.algorithm = 'ed25519-sha256' and k.state = 'active'
   returning k.selector`,
)

/** Ed25519 keys whose record is gone sign no more until it is seen again: there is an RSA key beside them. To be called in a transaction. */
export async function suspendEd25519(
  tx: Db,
  workspace: WorkspaceId,
  domain: string,
  selectors: readonly string[],
): Promise<string[]> {
  const rows = await tx.rows<{ selector: string }>(suspend, [workspace, domain, selectors])
  return rows.map(({ selector }) => selector)
}

const dropPending = sql(
  'drop-pending-ed25519',
  `delete from dkim_key_pairs k
    where k.workspace_id = $1 and k.domain_id = $2 and k.algorithm = 'ed25519-sha256' and k.state = 'pending' returning k.selector`,
)
const retireActive = sql(
  'retire-ed25519',
  `update dkim_key_pairs k set state = 'retired', retired_at = app_now()
    where k.workspace_id = $1 and k.domain_id = $2 and k.algorithm = 'ed25519-sha256' and k.state = 'active' returning k.selector`,
)

/** A domain's mail is signed with RSA alone from now on; answers which keys that ended. To be called in a transaction. */
export async function endEd25519(tx: Db, workspace: WorkspaceId, domain: string): Promise<string[]> {
  // Also where nobody looks at the domain by itself: what is retired is to be forgotten.
  await tx.rows(lookSoon, [workspace, domain])
  const ended = [
    ...(await tx.rows<{ selector: string }>(dropPending, [workspace, domain])),
    ...(await tx.rows<{ selector: string }>(retireActive, [workspace, domain])),
  ]
  return ended.map(({ selector }) => selector)
}

const forget = sql(
  'forget-dkim-keys',
  `delete from dkim_key_pairs k where k.workspace_id = $1 and k.domain_id = $2 and k.state = 'retired'
      and (k.retired_at < app_now() - $3 * interval '1 millisecond' or k.selector = any ($4)) returning k.selector`,
)

/** Keys that signed their last mail so long ago that nobody verifies it any more, and of the retired those that were withdrawn. */
export async function forgetDkimKeys(
  db: Db,
  workspace: WorkspaceId,
  domain: string,
  retiredMs: number,
  withdrawn: readonly string[],
): Promise<string[]> {
  const rows = await db.rows<{ selector: string }>(forget, [workspace, domain, retiredMs, withdrawn])
  return rows.map(({ selector }) => selector)
}

export interface NewDkimKey {
  readonly selector: string
  readonly algorithm: DkimAlgorithm
  readonly publicKey: string
  readonly privateKeySealed: Buffer
}

const prepare = sql(
  'prepare-dkim-key',
  `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, state)
   select d.workspace_id, d.id, $3, $6, $4, $5, 'pending' from domains d where d.workspace_id = $1 and d.id = $2
   on conflict do nothing returning selector`,
)
// Locks the domain, as a check and a removal do. Whoever changes its keys begins with this: the other way round they would wait for each other in a circle.
const lookSoon = sql(
  'check-domain-soon',
  'update domains set check_due_at = app_now() where workspace_id = $1 and id = $2 returning id',
)

/** False where another key of the algorithm is waiting already, or there is no such domain. To be called in a transaction. */
export async function prepareDkimKey(
  tx: Db,
  workspace: WorkspaceId,
  domain: string,
  { selector, algorithm, publicKey, privateKeySealed }: NewDkimKey,
): Promise<boolean> {
  await tx.rows(lookSoon, [workspace, domain])
  return (await tx.rows(prepare, [workspace, domain, selector, publicKey, privateKeySealed, algorithm])).length === 1
}

const counts = sql(
  'count-domains',
  `select status, count(*)::integer many, (count(*) filter (where vouched))::integer vouched
     from domains group by status order by status`,
)

/** `vouched`: how many of them an operator's word has verified, and no look at the DNS. */
export const countDomains = (db: Db): Promise<{ status: DomainStatus; many: number; vouched: number }[]> =>
  db.rows(counts)
