// Mail that the installation itself sends: invitations, password resets, notices to owners. It goes the way of all mail, through `accept`,
// from the mailbox of POSTHORN_SYSTEM_MAILBOX or the one that the first start made.
import { hash } from 'node:crypto'
import type { Log } from '../base/log.ts'
import type { Vault } from '../base/secret.ts'
import type { Route } from '../config.ts'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import type { Accepted, Submission } from '../domain/submission.ts'
import { parseAddress } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { mailboxNamed } from '../store/mailboxes.ts'
import { readInstallation, writeInstallation } from '../store/installation.ts'
import { workspaceById } from '../store/workspaces.ts'
import { openRoute } from '../store/routes.ts'

export interface Notice {
  readonly to: string
  readonly subject: string
  readonly bodyText: string
  /** A name for what is told, and to whom: it is accepted once, however often and by however many nodes it is said. */
  readonly once?: string
}
/** False where it was not accepted; the log says why. */
export type Notify = (notice: Notice) => Promise<boolean>

/** Names of facts in the table `installation`. */
const systemFacts = { workspace: 'system_workspace', mailbox: 'system_mailbox' } as const

export function makeNotifier(tools: {
  readonly db: Db
  readonly log: Log
  /** POSTHORN_SYSTEM_MAILBOX: an id or an address. */
  readonly mailbox: string | undefined
  readonly accept: (submission: Submission) => Promise<Accepted | Refusal>
}): Notify {
  return async ({ to, subject, bodyText, once }) => {
    const recipient = parseAddress(to)
    const sender = await findSender(tools.db, tools.mailbox)
    if (recipient === undefined || sender === undefined) {
      const why =
        sender === undefined
          ? 'there is no system mailbox: set POSTHORN_SYSTEM_MAILBOX to one that there is'
          : 'no such address'
      tools.log.fault('notices', new Error(why))
      return false
    }
    const idempotency = { endpoint: 'notice', key: once ?? '', bodyHash: hash('sha256', once ?? '') } as const
    const answer = await tools.accept({
      ...sender,
      source: 'notice',
      recipient,
      subject,
      bodyText,
      attachments: [],
      ...(once !== undefined && { idempotency }),
    })
    if (isRefusal(answer)) tools.log.fault('notices', new Error(answer.words), { code: answer.code })
    return !isRefusal(answer)
  }
}

/** Of the installation's own mail, by the setting or else as the first start made it. */
export async function findSender(
  db: Db,
  setting: string | undefined,
): Promise<{ readonly workspaceId: WorkspaceId; readonly mailboxId: MailboxId } | undefined> {
  const name = setting ?? (await readInstallation(db, systemFacts.mailbox))
  return name === undefined ? undefined : mailboxNamed(db, name)
}

/**
 * What becomes of the installation's own mail. In the sandbox it lies in the inbox of its workspace, whomever it is to; which one that is, only
 * operators and those who look at it hear, as of any workspace.
 */
export interface NoticesWay {
  readonly goes: 'out' | 'sandbox' | 'nowhere'
  readonly workspaceId?: WorkspaceId
}

export async function wayOfNotices(
  tools: {
    readonly db: Db
    readonly vault: Vault
    readonly systemMailbox?: string | undefined
    /** The installation's. */
    readonly route: Route
  },
  asking: { readonly workspaceId: WorkspaceId; readonly operator: boolean },
): Promise<NoticesWay> {
  const sender = await findSender(tools.db, tools.systemMailbox)
  if (sender === undefined) return { goes: 'nowhere' }
  const { workspaceId } = sender
  const sealed = (await workspaceById(tools.db, workspaceId))?.routeSealed ?? null
  const route = sealed === null ? tools.route : openRoute(tools.vault, workspaceId, sealed)
  if (route.kind !== 'sandbox') return { goes: 'out' }
  return { goes: 'sandbox', ...((asking.operator || asking.workspaceId === workspaceId) && { workspaceId }) }
}

export const readSystemMailbox = (db: Db): Promise<string | undefined> => readInstallation(db, systemFacts.mailbox)

/** In which every operator is an owner. */
export const readSystemWorkspace = (db: Db): Promise<WorkspaceId | undefined> =>
  readInstallation(db, systemFacts.workspace) as Promise<WorkspaceId | undefined>

export async function saveSystemMailbox(db: Db, workspace: WorkspaceId, mailbox: MailboxId): Promise<void> {
  await writeInstallation(db, systemFacts.workspace, workspace)
  await writeInstallation(db, systemFacts.mailbox, mailbox)
}
