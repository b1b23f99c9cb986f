// Domains with their DKIM keys, and mailboxes: one function per statement, each naming the workspace.
import { isUuid } from '../base/uuid.ts'
import type { DomainStatus } from '../domain/domain-state.ts'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { sql, type Db } from './database.ts'

export interface DomainRow {
  readonly id: string
  readonly name: string
  readonly status: DomainStatus
  readonly ownership_token: string
  readonly created_at: Date
  readonly verified_at: Date | null
  /** RSA before Ed25519; of each those that sign or wait first, then the retired ones. */
  readonly keys: readonly DkimKeyRow[]
  readonly vouched: boolean
  readonly degraded_at: Date | null
  readonly checked_at: Date | null
  readonly check_due_at: Date | null
  readonly checks_unanswered: number
  readonly return_path_host: string | null
  /** What the last check saw; its shape is the checker's. */
  readonly found: object | null
}

export interface DkimKeyRow {
  readonly selector: string
  readonly algorithm: DkimAlgorithm
  readonly public_key: string
  readonly state: 'pending' | 'active' | 'retired'
  /** As JSON has it. */
  readonly retired_at: string | null
}

export interface MailboxRow {
  readonly id: MailboxId
  readonly address: string
  readonly name: string | null
  readonly status: 'active' | 'disabled'
  readonly domain: string
  readonly created_at: Date
}

// The keys: active, pending, retired, which is also the order of the alphabet.
const domainColumns = `d.id, d.name, d.status, d.ownership_token, d.created_at, d.verified_at,
   coalesce((select json_agg(json_build_object('selector', k.selector, 'algorithm', k.algorithm, 'public_key', k.public_key,
     'state', k.state, 'retired_at', k.retired_at) order by k.algorithm desc, k.state, k.selector)
   from dkim_key_pairs k where k.workspace_id = d.workspace_id and k.domain_id = d.id), '[]') keys, d.vouched, d.degraded_at, d.checked_at,
   d.check_due_at, d.checks_unanswered, d.return_path_host, d.found`

/** Of a mailbox `m` on a domain `d`. */
const mailboxColumns = 'm.id, m.address, m.name, m.status, m.created_at, d.name as domain'

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
const verify = sql(
  'verify-domain',
  `update domains set status = 'verified', verified_at = coalesce(verified_at, app_now()), vouched = true, degraded_at = null, check_due_at = null
    where workspace_id = $1 and name = $2 returning id`,
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
// Waits for whoever removes the domain.
const mailbox = sql(
  'insert-mailbox',
  `with made as (
     insert into mailboxes (workspace_id, id, domain_id, address, address_key, name)
     select d.workspace_id, $3, d.id, $4, $5, $6 from domains d where d.workspace_id = $1 and d.name = $2 for key share
     on conflict (workspace_id, address_key) do nothing
     returning id, address, name, status, created_at)
   select m.*, $2::text as domain from made m`,
)
const mailboxesOf = sql(
  'list-mailboxes',
  `select ${mailboxColumns}
     from mailboxes m
     cross join lateral (select x.name from domains x where x.workspace_id = m.workspace_id and x.id = m.domain_id limit 1) d
    where m.workspace_id = $1 order by m.address_key`,
)
const mailboxById = sql(
  'mailbox-by-id',
  `select ${mailboxColumns}
     from mailboxes m join domains d on d.workspace_id = m.workspace_id and d.id = m.domain_id
    where m.workspace_id = $1 and m.id = $2`,
)
const change = sql(
  'change-mailbox',
  `update mailboxes m set status = coalesce($3, m.status), name = case when $4 then $5 else m.name end from domains d
    where m.workspace_id = $1 and m.id = $2 and d.workspace_id = m.workspace_id and d.id = m.domain_id
   returning ${mailboxColumns}`,
)
const removeMailbox = sql(
  'delete-mailbox',
  'delete from mailboxes where workspace_id = $1 and id = $2 returning address',
)
// The installation's own sender, named by an operator: by id, or by an address from which only one workspace may send. Anybody may make a
// mailbox of that address on a domain that is not theirs.
const byAnyId = sql('any-mailbox-by-id', 'select m.workspace_id, m.id from mailboxes m where m.id = $1::uuid')
// No index has addresses alone: one look-up in each workspace, however many mailboxes they have. It is ordered so that only the key by address fits
// (decision 0006).
const byAnyAddress = sql(
  'mailboxes-of-address',
  `select own.workspace_id, own.id from workspaces w
     cross join lateral (
       select x.workspace_id, x.id, x.domain_id, x.status from mailboxes x
        where x.workspace_id = w.id and x.address_key between $1 and $1 order by x.workspace_id, x.address_key limit 1) own
     cross join lateral (
       select from domains d where d.workspace_id = own.workspace_id and d.id = own.domain_id and d.status in ('verified', 'degraded') limit 1) sends
    where own.status = 'active' limit 2`,
)
const ownerOfMailbox = sql('owner-of-mailbox', 'select workspace_id from mailboxes where id = $1')

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

export interface NewMailbox {
  readonly id: string
  readonly domain: string
  readonly address: string
  readonly addressKey: string
  readonly name: string | null
}

/** Undefined where the workspace has the address already, or does not have its domain. */
export async function insertMailbox(
  db: Db,
  workspace: WorkspaceId,
  { id, domain, address, addressKey, name }: NewMailbox,
): Promise<MailboxRow | undefined> {
  return (await db.rows<MailboxRow>(mailbox, [workspace, domain, id, address, addressKey, name]))[0]
}

export const listMailboxRows = (db: Db, workspace: WorkspaceId): Promise<MailboxRow[]> =>
  db.rows<MailboxRow>(mailboxesOf, [workspace])

/** For operators, who name a mailbox by its id alone. */
export async function workspaceOfMailbox(db: Db, id: string): Promise<WorkspaceId | undefined> {
  return (await db.rows<{ workspace_id: WorkspaceId }>(ownerOfMailbox, [id]))[0]?.workspace_id
}

const activeMailbox = sql(
  'active-mailbox',
  `select m.id from mailboxes m join domains d on d.workspace_id = m.workspace_id and d.id = m.domain_id
    where m.workspace_id = $1 and m.address_key = $2 and m.status = 'active' and d.status in ('verified', 'degraded')`,
)

/** The mailbox of this address, where mail may be sent from it now. */
export async function findActiveMailbox(
  db: Db,
  workspace: WorkspaceId,
  addressKey: string,
): Promise<MailboxId | undefined> {
  return (await db.rows<{ id: MailboxId }>(activeMailbox, [workspace, addressKey]))[0]?.id
}

export async function findMailbox(db: Db, workspace: WorkspaceId, id: string): Promise<MailboxRow | undefined> {
  return (await db.rows<MailboxRow>(mailboxById, [workspace, id]))[0]
}

/** What is left out stays; a name of null takes it away. */
export async function changeMailbox(
  db: Db,
  workspace: WorkspaceId,
  id: string,
  changes: { readonly status?: 'active' | 'disabled' | undefined; readonly name?: string | null | undefined },
): Promise<MailboxRow | undefined> {
  const values = [workspace, id, changes.status ?? null, changes.name !== undefined, changes.name ?? null]
  return (await db.rows<MailboxRow>(change, values))[0]
}

/** Its address; undefined where there is none. Nothing refers to the row: messages keep their sender. */
export async function deleteMailbox(db: Db, workspace: WorkspaceId, id: string): Promise<string | undefined> {
  return (await db.rows<{ address: string }>(removeMailbox, [workspace, id]))[0]?.address
}

/** By id, or by an address that may be sent from, whatever the workspace: undefined where there is none, or more than one. */
export async function mailboxNamed(
  db: Db,
  idOrAddress: string,
): Promise<{ readonly workspaceId: WorkspaceId; readonly mailboxId: MailboxId } | undefined> {
  const name = idOrAddress.toLowerCase()
  const rows = await db.rows<{ workspace_id: WorkspaceId; id: MailboxId }>(isUuid(name) ? byAnyId : byAnyAddress, [
    name,
  ])
  const [row] = rows
  return rows.length === 1 && row !== undefined ? { workspaceId: row.workspace_id, mailboxId: row.id } : undefined
}
