// Mailboxes: one function per statement, each naming the workspace, but where an operator names a mailbox alone.
import { isUuid } from '../base/uuid.ts'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

export interface MailboxRow {
  readonly id: MailboxId
  readonly address: string
  readonly name: string | null
  readonly status: 'active' | 'disabled'
  readonly domain: string
  readonly createdAt: Date
}

/** Of a mailbox `m` on a domain `d`. */
const mailboxColumns = 'm.id, m.address, m.name, m.status, d.name as domain, m.created_at "createdAt"'

// Waits for whoever removes the domain.
const mailbox = sql(
  'insert-mailbox',
  `with made as (
     insert into mailboxes (workspace_id, id, domain_id, address, address_key, name)
     select d.workspace_id, $3, d.id, $4, $5, $6 from domains d where d.workspace_id = $1 and d.name = $2 for key share
     on conflict (workspace_id, address_key) do nothing
     returning id, address, name, status, created_at "createdAt")
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
