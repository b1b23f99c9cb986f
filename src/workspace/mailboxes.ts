// Mailboxes: the addresses that a workspace sends from, each on one of its domains.
import { randomUUIDv7 } from 'node:crypto'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { findDomain, insertMailbox, listMailboxRows, workspaceOfMailbox } from '../store/senders.ts'
import type { MailboxRow } from '../store/senders.ts'
import { Mistake, parseId, parseName } from './mistake.ts'

export interface Mailbox {
  readonly id: MailboxId
  readonly address: string
  readonly name?: string
  readonly status: 'active' | 'disabled'
  readonly domain: string
  readonly createdAt: Date
}

/** `name` is the display name of the From field. */
export async function addMailbox(db: Db, workspace: WorkspaceId, text: string, name?: string): Promise<Mailbox> {
  const address = parseAddress(text)
  if (address === undefined)
    throw new Mistake(`"${text}" ${unsupportedForm(text) ?? 'is not an address, such as shop@example.org'}.`, {
      field: 'address',
    })
  const row = await insertMailbox(db, workspace, {
    id: randomUUIDv7(),
    domain: address.domain,
    address: address.text,
    addressKey: address.key,
    name: name === undefined ? null : parseName(name, 'mailbox'),
  })
  if (row === undefined && (await findDomain(db, workspace, address.domain)) === undefined)
    throw new Mistake(`The workspace does not have the domain ${address.domain}; add it first.`, { field: 'address' })
  if (row === undefined)
    throw new Mistake(`The workspace already has the mailbox ${address.text}.`, { code: 'conflict', field: 'address' })
  return presentMailbox(row)
}

export async function listMailboxes(db: Db, workspace: WorkspaceId): Promise<Mailbox[]> {
  return (await listMailboxRows(db, workspace)).map(presentMailbox)
}

/** Of which workspace it is, for those who may look into all of them. */
export async function whoseMailbox(db: Db, text: string): Promise<WorkspaceId> {
  const id = parseId(text, 'mailbox')
  const workspace = await workspaceOfMailbox(db, id)
  if (workspace === undefined) throw new Mistake(`There is no mailbox ${id}.`)
  return workspace
}

export function presentMailbox({ id, address, name, status, domain, created_at: createdAt }: MailboxRow): Mailbox {
  return { id, address, ...(name !== null && { name }), status, domain, createdAt }
}
