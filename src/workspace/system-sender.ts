// Who sends the installation's own mail, and whether its domain can be known to receivers: the facts, for the doctor and the start.
import type { Vault } from '../base/secret.ts'
import type { Route, Settings } from '../config.ts'
import type { DomainStatus } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { findDomain } from '../store/domains.ts'
import { findMailbox } from '../store/mailboxes.ts'
import { workspaceById } from '../store/workspaces.ts'
import { openRoute } from '../store/routes.ts'
import { presentDomain } from './domains.ts'
import { findSender } from './notices.ts'

export interface SystemSender {
  readonly address: string
  readonly mailbox: 'active' | 'disabled'
  readonly workspace: {
    readonly id: WorkspaceId
    readonly name: string
    readonly status: 'active' | 'blocked'
    /** Its own one; left out where it takes the installation's. */
    readonly route?: Route['kind']
  }
  readonly domain: {
    readonly name: string
    readonly status: DomainStatus
    /** Verified by the word of an operator, or of the first start. */
    readonly vouched: boolean
    /** The last look at the DNS has found the record of a key. */
    readonly dkimSeen: boolean
  }
}

/** Undefined where there is nobody to send. */
export async function readSystemSender(tools: {
  readonly db: Db
  readonly vault: Vault
  readonly settings: Pick<Settings, 'POSTHORN_SYSTEM_MAILBOX' | 'POSTHORN_HOSTNAME'>
}): Promise<SystemSender | undefined> {
  const { db, vault, settings } = tools
  const sender = await findSender(db, settings.POSTHORN_SYSTEM_MAILBOX)
  const mailbox = sender && (await findMailbox(db, sender.workspaceId, sender.mailboxId))
  const row = mailbox && (await findDomain(db, sender.workspaceId, mailbox.domain))
  const workspace = row && (await workspaceById(db, sender.workspaceId))
  if (mailbox === undefined || row === undefined || workspace === undefined) return undefined // removed since it was found
  const { id, routeSealed: sealed } = workspace
  const { name, status, vouched, records } = presentDomain(row, settings.POSTHORN_HOSTNAME)
  return {
    address: mailbox.address,
    mailbox: mailbox.status,
    workspace: {
      id,
      name: workspace.name,
      status: workspace.status,
      ...(sealed !== null && { route: openRoute(vault, id, sealed).kind }),
    },
    domain: {
      name,
      status,
      vouched,
      dkimSeen: records.some((record) => record.purpose === 'dkim' && record.status === 'verified'),
    },
  }
}
