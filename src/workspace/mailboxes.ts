// Mailboxes: the addresses that a workspace sends from, each on one of its domains.
import { randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { findDomain } from '../store/domains.ts'
import {
  changeMailbox,
  deleteMailbox,
  findMailbox,
  insertMailbox,
  listMailboxRows,
  workspaceOfMailbox,
} from '../store/mailboxes.ts'
import type { MailboxRow } from '../store/mailboxes.ts'
import { audited, stillBy, type By } from './by.ts'
import { Mistake, notThere, parseId, parseName } from './mistake.ts'
import { findSender, readSystemMailbox } from './notices.ts'
import type { Office } from './office.ts'

export type Mailbox = Given<MailboxRow>

/** `name` is the display name of the From field. */
export async function addMailbox(db: Db, workspace: WorkspaceId, text: string, name?: string): Promise<Mailbox> {
  const address = parseAddress(text)
  if (address === undefined)
    throw new Mistake(`"${text}" ${unsupportedForm(text) ?? 'is not an address, such as shop@example.org'}.`, {
      field: 'address',
    })
  // RFC 5322 allows the character, but whoever writes it here means all addresses of the domain.
  if (address.local.includes('*'))
    throw new Mistake(
      `A mailbox is one address: "${text}" would stand for that name with the "*" in it, and for no other. Add each address that you send from, such as hello@${address.domain}.`,
      { field: 'address' },
    )
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
  return shown(row)
}

export async function listMailboxes(db: Db, workspace: WorkspaceId): Promise<Mailbox[]> {
  return (await listMailboxRows(db, workspace)).map(shown)
}

/** Of which workspace it is, for those who may look into all of them. */
export async function whoseMailbox(db: Db, text: string): Promise<WorkspaceId> {
  const id = parseId(text, 'mailbox')
  const workspace = await workspaceOfMailbox(db, id)
  if (workspace === undefined) throw new Mistake(`There is no mailbox ${id}.`)
  return workspace
}

// On somebody's behalf, each with its audit row in one transaction.

export function addMailboxFor(
  { db }: Pick<Office, 'db'>,
  by: By,
  address: string,
  name: string | undefined,
): Promise<Mailbox> {
  return audited(
    db,
    by,
    'mailbox.added',
    async (tx) => {
      // One at a time: several that come together would all find room for one more.
      await stillBy(tx, by, 'mailboxes.write')
      if ((await listMailboxRows(tx, by.workspaceId)).length >= limits.mailboxesPerWorkspaceMax)
        throw new Mistake(
          `A workspace has at most ${limits.mailboxesPerWorkspaceMax} mailboxes; remove one that is not needed any more.`,
          { code: 'conflict' },
        )
      return addMailbox(tx, by.workspaceId, address, name)
    },
    (mailbox) => ({ target: mailbox.address }),
  )
}

export async function showMailbox({ db }: Pick<Office, 'db'>, workspace: WorkspaceId, id: string): Promise<Mailbox> {
  const row = await findMailbox(db, workspace, id)
  if (row === undefined) throw notThere('mailbox')
  return shown(row)
}

/** An empty name takes the display name away. */
export function changeMailboxFor(
  { db }: Pick<Office, 'db'>,
  by: By,
  id: string,
  changes: { readonly status?: 'active' | 'disabled'; readonly name?: string },
): Promise<Mailbox> {
  const { status } = changes
  const name = changes.name === undefined ? undefined : changes.name === '' ? null : parseName(changes.name, 'mailbox')
  return audited(
    db,
    by,
    'mailbox.changed',
    async (tx) => {
      const row = await changeMailbox(tx, by.workspaceId, id, { status, name })
      if (row === undefined) throw notThere('mailbox')
      return shown(row)
    },
    (mailbox) => ({ target: mailbox.address, facts: changes }),
  )
}

/** Its address. What was sent from it stays; its mail that still waits fails at its next turn, as that of a disabled one (decisions 0057). */
export function removeMailbox(
  { db, systemMailbox }: Pick<Office, 'db' | 'systemMailbox'>,
  by: By,
  id: string,
): Promise<string> {
  return audited(
    db,
    by,
    'mailbox.removed',
    async (tx) => {
      // Before it is gone: a setting may name it by its address.
      const own = [await readSystemMailbox(tx), (await findSender(tx, systemMailbox))?.mailboxId]
      const address = await deleteMailbox(tx, by.workspaceId, id)
      if (address === undefined) throw notThere('mailbox')
      if (own.includes(id))
        throw new Mistake('The installation sends its own mail from this mailbox, such as password resets; it stays.', {
          code: 'conflict',
        })
      return address
    },
    (address) => ({ target: address, facts: { id } }),
  )
}
