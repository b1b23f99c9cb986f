// Domains with their DKIM keys: one function per statement, each naming the workspace.
import type { DomainStatus } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { sql, type Db } from './database.ts'

export interface DomainRow {
  readonly id: string
  readonly name: string
  readonly status: DomainStatus
  readonly ownershipToken: string
  readonly createdAt: Date
  readonly verifiedAt: Date | null
  /** RSA before Ed25519; of each those that sign or wait first, then the retired ones. */
  readonly keys: readonly DkimKeyRow[]
  /** Verified by an operator's word: checks say what they see, and change nothing. */
  readonly vouched: boolean
  /** Since then its records are broken; it sends for a while all the same. */
  readonly brokenSince: Date | null
  readonly checkedAt: Date | null
  /** When it is looked at next by itself. */
  readonly nextCheckAt: Date | null
  readonly checksUnanswered: number
  /** The name that bounces come back to, where the domain has its own. */
  readonly returnPathHost: string | null
  /** What the last check saw; its shape is the checker's. */
  readonly found: object | null
}

export interface DkimKeyRow {
  readonly selector: string
  readonly algorithm: DkimAlgorithm
  readonly publicKey: string
  readonly state: 'pending' | 'active' | 'retired'
  /** As JSON has it. */
  readonly retiredAt: string | null
}

// The keys: active, pending, retired, which is also the order of the alphabet.
const domainColumns = `d.id, d.name, d.status, d.ownership_token "ownershipToken", d.created_at "createdAt", d.verified_at "verifiedAt",
   coalesce((select json_agg(json_build_object('selector', k.selector, 'algorithm', k.algorithm, 'publicKey', k.public_key,
     'state', k.state, 'retiredAt', k.retired_at) order by k.algorithm desc, k.state, k.selector)
   from dkim_key_pairs k where k.workspace_id = d.workspace_id and k.domain_id = d.id), '[]') keys, d.vouched, d.degraded_at "brokenSince", d.checked_at "checkedAt",
   d.check_due_at "nextCheckAt", d.checks_unanswered "checksUnanswered", d.return_path_host "returnPathHost", d.found`

const insertOne = sql(
  'insert-domain',
  `with made as (
     insert into domains (workspace_id, id, name, status, ownership_token, verified_at, vouched, check_due_at)
     values ($1, $2, $3, $4, $5, case when $4 = 'verified' then app_now() end, $4 = 'verified', case when $4 = 'pending' then app_now() end)
     on conflict (workspace_id, name) do nothing
     returning workspace_id, id)
   insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, activated_at)
   select workspace_id, id, $6, 'rsa-sha256', $7, $8, app_now() from made returning domain_id`,
)
// Nobody looks at it for its own state any more, but for keys that wait, are to be forgotten or sign beside: the check says when again.
const verify = sql(
  'verify-domain',
  `update domains d set status = 'verified', verified_at = coalesce(d.verified_at, app_now()), vouched = true, degraded_at = null,
          check_due_at = case when exists (
            select from dkim_key_pairs k
             where k.workspace_id = d.workspace_id and k.domain_id = d.id and (k.state <> 'active' or k.algorithm <> 'rsa-sha256')) then app_now() end
    where d.workspace_id = $1 and d.name = $2 returning d.id`,
)
const unvouch = sql(
  'unvouch-domain',
  `update domains set vouched = false, checks_unanswered = 0, check_due_at = app_now() where workspace_id = $1 and id = $2 and vouched
   returning id`,
)
const domainByName = sql(
  'domain-by-name',
  `select ${domainColumns}
     from domains d where d.workspace_id = $1 and d.name = $2`,
)
const domainsOf = sql(
  'list-domains',
  `select ${domainColumns}
     from domains d where d.workspace_id = $1 order by d.name`,
)
const domainById = sql(
  'domain-by-id',
  `select ${domainColumns}
     from domains d where d.workspace_id = $1 and d.id = $2`,
)
// A statement of its own, before the one that looks at mailboxes and keys: what was added meanwhile is seen by it, and nothing is added after.
const holdDomain = sql('hold-domain', 'select id from domains where workspace_id = $1 and id = $2 for update')
// Mailboxes keep their domain.
const removeDomain = sql(
  'delete-domain',
  `with free as (
     select d.id from domains d where d.workspace_id = $1 and d.id = $2
        and not exists (select from mailboxes m where m.workspace_id = d.workspace_id and m.domain_id = d.id)),
   keys as (delete from dkim_key_pairs k using free f where k.workspace_id = $1 and k.domain_id = f.id returning k.domain_id)
   delete from domains d using free f where d.workspace_id = $1 and d.id = f.id and (select count(*) from keys) >= 0 returning d.name`,
)
export interface NewDomain {
  readonly id: string
  readonly name: string
  readonly status: 'pending' | 'verified'
  readonly ownershipToken: string
  readonly selector: string
  readonly publicKey: string
  readonly privateKeySealed: Buffer
}

/** False where the workspace has the domain already. */
export async function insertDomain(db: Db, workspace: WorkspaceId, domain: NewDomain): Promise<boolean> {
  const { id, name, status, ownershipToken, selector, publicKey, privateKeySealed } = domain
  const values = [workspace, id, name, status, ownershipToken, selector, publicKey, privateKeySealed]
  return (await db.rows(insertOne, values)).length === 1
}

/** False where the workspace does not have the domain. */
export async function verifyDomain(db: Db, workspace: WorkspaceId, name: string): Promise<boolean> {
  return (await db.rows(verify, [workspace, name])).length === 1
}

/** It keeps its state, and is looked at soon. False where there is none, or nobody vouches for it. */
export async function takeBackWord(db: Db, workspace: WorkspaceId, id: string): Promise<boolean> {
  return (await db.rows(unvouch, [workspace, id])).length === 1
}

export async function findDomain(db: Db, workspace: WorkspaceId, name: string): Promise<DomainRow | undefined> {
  return (await db.rows<DomainRow>(domainByName, [workspace, name]))[0]
}

export async function findDomainById(db: Db, workspace: WorkspaceId, id: string): Promise<DomainRow | undefined> {
  return (await db.rows<DomainRow>(domainById, [workspace, id]))[0]
}

/** Its name; undefined where there is none, or it has mailboxes. To be called in a transaction. */
export async function deleteDomain(tx: Db, workspace: WorkspaceId, id: string): Promise<string | undefined> {
  await tx.rows(holdDomain, [workspace, id])
  return (await tx.rows<{ name: string }>(removeDomain, [workspace, id]))[0]?.name
}

export const listDomainRows = (db: Db, workspace: WorkspaceId): Promise<DomainRow[]> =>
  db.rows<DomainRow>(domainsOf, [workspace])
