// What an SMTP session asks about its user: is the password right, does the credential still stand, which mailbox is this sender, is this
// recipient suppressed. A revoked credential is felt at the next MAIL of an open session. What decides in the end is the admission.
import { timingSafeEqual } from 'node:crypto'
import type { Log } from '../base/log.ts'
import type { Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import type { Submitter } from '../domain/submission.ts'
import type { EmailAddress } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { findActiveMailbox } from '../store/mailboxes.ts'
import { findSubmitter, noteCredentialUses, type SubmitterRow } from '../store/smtp-credentials.ts'
import { makeUses } from '../store/uses.ts'
import { RememberedAccess } from './remembered-access.ts'
import { passwordHasher } from './smtp-credentials.ts'
import { standingIn } from './standing.ts'
import { suppressionLookUp } from './suppressed.ts'

export interface Submitters {
  /** Undefined where username or password is wrong, or the credential revoked or expired. */
  login(username: string, password: string): Promise<Submitter | undefined>
  /** The same user a while later; undefined where the credential has ended meanwhile. */
  standing(username: string): Promise<Submitter | undefined>
  /** The mailbox of a sender's address, where it is an active one of the workspace. */
  mailboxOf(workspace: WorkspaceId, sender: EmailAddress): Promise<MailboxId | undefined>
  isSuppressed(workspace: WorkspaceId, recipient: EmailAddress): Promise<boolean>
  /** To be called at each notification on the channel `posthorn_access`. */
  forget(): void
  /** Resolves when it is written down who was there. */
  quiet(): Promise<void>
}

export function makeSubmitters(tools: {
  readonly db: Db
  readonly vault: Vault
  readonly log: Log
  /** Stands before upgrade URLs that are paths. */
  readonly publicUrl: string
}): Submitters {
  const { db, log } = tools
  const hashOf = passwordHasher(tools.vault)
  const nobody = hashOf('', '')
  const uses = makeUses(db, noteCredentialUses, log, 'smtp credentials: when they were used could not be written down')
  const users = new RememberedAccess<SubmitterRow>(limits.principalsMax, (row) => row.expires_in_ms ?? Infinity)
  const mailboxes = new RememberedAccess<MailboxId>(limits.sendersRememberedMax, () => Infinity)
  const isSuppressed = suppressionLookUp(db)

  const userOf = (username: string): Promise<SubmitterRow | undefined> | SubmitterRow =>
    users.get(username, async () => {
      const row = await findSubmitter(db, username)
      if (row !== undefined) uses.note(row)
      return row
    })

  return {
    login: async (username, password) => {
      const row = await userOf(username)
      // The same work for a name that does not exist.
      const right = timingSafeEqual(hashOf(username, password), row?.passwordHash ?? nobody)
      return row !== undefined && right ? present(row, tools.publicUrl) : undefined
    },
    standing: async (username) => {
      const row = await userOf(username)
      return row === undefined ? undefined : present(row, tools.publicUrl)
    },
    mailboxOf: async (workspace, sender) =>
      mailboxes.get(`${workspace} ${sender.key}`, () => findActiveMailbox(db, workspace, sender.key)),
    isSuppressed: (workspaceId, { key }) => isSuppressed(workspaceId, key),
    forget: () => {
      users.forget()
      mailboxes.forget()
    },
    quiet: () => uses.quiet(),
  }
}

function present(row: SubmitterRow, publicUrl: string): Submitter {
  return {
    credentialId: row.id,
    workspaceId: row.workspace_id,
    ...standingIn(row, publicUrl),
  }
}
