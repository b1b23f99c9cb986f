// A new installation is ready to send: one workspace with a verified domain, a mailbox, a key and an SMTP credential, so that the first mail is one paste away.
import type { Vault } from './base/secret.ts'
import type { Db } from './store/database.ts'
import {
  addDomain,
  addMailbox,
  createKey,
  createSmtpCredential,
  createWorkspace,
  listAllWorkspaces,
} from './workspace/workspace.ts'

export interface FirstWorkspace {
  readonly name: string
  readonly mailboxId: string
  readonly key: string
  readonly sender: string
  readonly smtp: { readonly username: string; readonly password: string }
}

export const firstName = 'My workspace'
/** Reserved for examples (RFC 2606): nothing sent from it could ever claim to be somebody. */
const firstDomain = 'mail.example'

/** Undefined when there is a workspace already. */
export async function makeFirstWorkspace(db: Db, vault: Vault, hostname: string): Promise<FirstWorkspace | undefined> {
  const isMade = async () => (await listAllWorkspaces(db, vault)).length > 0
  if (await isMade()) return undefined
  let workspace
  try {
    workspace = await createWorkspace(db, vault, firstName, 'unlimited')
  } catch (error) {
    if (await isMade()) return undefined // by another node, which starts at the same time
    throw error
  }
  await addDomain({ db, vault, hostname }, workspace.id, firstDomain, true)
  const mailbox = await addMailbox(db, workspace.id, `hello@${firstDomain}`, 'Posthorn')
  const { key } = await createKey(db, workspace.id, { name: 'first key', scopes: ['mail.send', 'mail.status.read'] })
  const smtp = await createSmtpCredential(db, vault, workspace.id, 'first credential')
  return { name: workspace.name, mailboxId: mailbox.id, key, sender: mailbox.address, smtp }
}
