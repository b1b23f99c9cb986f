// A new installation is ready to send and to be looked at: one workspace with a verified domain, a mailbox, a key and an SMTP credential, so that
// the first mail is one paste away; a workspace of its own for the installation's mail; and a login for the dashboard.
import type { Vault } from './base/secret.ts'
import { parseDomain } from './mail/address.ts'
import type { Db } from './store/database.ts'
import { noteFirstLogin, noteFirstSecrets } from './store/first-secrets.ts'
import { isAnyUser } from './store/people.ts'
import {
  addDomain,
  addMailbox,
  createKey,
  createSmtpCredential,
  createUser,
  createWorkspace,
  listAllWorkspaces,
  Mistake,
  readSystemMailbox,
  saveSystemMailbox,
} from './workspace/workspace.ts'

export interface FirstWorkspace {
  readonly name: string
  readonly mailboxId: string
  readonly key: string
  readonly sender: string
  readonly smtp: { readonly username: string; readonly password: string }
}
export interface FirstLogin {
  readonly email: string
  readonly password: string
}

const firstName = 'My workspace'
const firstEmail = 'owner@posthorn.localhost'
/** Reserved for examples (RFC 2606): nothing sent from it could ever claim to be somebody. */
const firstDomain = 'mail.example'
/** Sends password resets and invitations. */
const systemName = 'Posthorn'

/** All of it or nothing: half of one would be there for good, and its key never shown. Undefined when there is a workspace already. */
export async function makeFirstWorkspace(db: Db, vault: Vault, hostname: string): Promise<FirstWorkspace | undefined> {
  const isMade = async () => (await listAllWorkspaces(db, vault)).some(({ name }) => name !== systemName)
  if (await isMade()) return undefined
  try {
    return await db.transaction(async (tx) => {
      const { id, name } = await createWorkspace(tx, vault, firstName, 'unlimited')
      await addDomain({ db: tx, vault, hostname }, id, firstDomain, true)
      const mailbox = await addMailbox(tx, id, `hello@${firstDomain}`, 'Posthorn')
      const key = await createKey(tx, id, { name: 'first key', scopes: ['mail.send', 'mail.status.read'] })
      const smtp = await createSmtpCredential(tx, vault, id, 'first credential')
      await noteFirstSecrets(tx, { key: key.id, credential: smtp.id })
      return { name, mailboxId: mailbox.id, key: key.key, sender: mailbox.address, smtp }
    })
  } catch (error) {
    if (await isMade()) return undefined // by another node, which starts at the same time
    throw error
  }
}

/** The sender of the installation's own mail, where none is set and none was made before. */
export async function makeSystemMailbox(db: Db, vault: Vault, hostname: string): Promise<void> {
  if ((await readSystemMailbox(db)) !== undefined) return
  const domain = parseDomain(hostname) === undefined ? 'posthorn.localhost' : hostname
  try {
    await db.transaction(async (tx) => {
      const { id } = await createWorkspace(tx, vault, systemName, 'unlimited')
      await addDomain({ db: tx, vault, hostname }, id, domain, true)
      const mailbox = await addMailbox(tx, id, `no-reply@${domain}`, 'Posthorn')
      await saveSystemMailbox(tx, id, mailbox.id)
    })
  } catch (error) {
    // Another node that starts at the same time, or an operator, has made a workspace of this name.
    if (!(error instanceof Mistake)) throw error
  }
}

/** The first one, or where it is called otherwise by now, or was never made, another one than the installation's own. */
async function firstOf(db: Db, vault: Vault) {
  const all = (await listAllWorkspaces(db, vault)).filter(({ removingSince }) => removingSince === undefined)
  return all.find(({ name }) => name === firstName) ?? all.find(({ name }) => name !== systemName)
}

/** How a command to paste names it, between double quotes: its owners chose the name, and a shell must read nothing into it. */
export async function aWorkspace(db: Db, vault: Vault): Promise<string> {
  const { id, name } = (await firstOf(db, vault)) ?? { id: '', name: firstName }
  return /^-|["$`\\!]/.test(name) ? id : name
}

/** An operator who owns the first workspace; undefined when there is anybody already. */
export async function makeFirstLogin(db: Db, vault: Vault): Promise<FirstLogin | undefined> {
  if (await isAnyUser(db)) return undefined
  const workspace = await firstOf(db, vault)
  try {
    return await db.transaction(async (tx) => {
      const { id, email, password } = await createUser(tx, 'posthorn', {
        email: firstEmail,
        operator: true,
        ...(workspace !== undefined && { member: { workspace: workspace.id, role: 'owner' as const } }),
      })
      if (password === undefined) return undefined
      await noteFirstLogin(tx, id)
      return { email, password }
    })
  } catch (error) {
    if (await isAnyUser(db)) return undefined // by another node, which starts at the same time
    throw error
  }
}
