// The door: who may send. Workspaces are made and changed here; plans, domains, mailboxes, keys, suppressions and the reading of
// messages stand beside it. Everything names its workspace; what cannot be done is a `Mistake`, one sentence.
import { randomUUIDv7 } from 'node:crypto'
import { given, shown, type Given } from '../base/given.ts'
import { sealedAs, type Vault } from '../base/secret.ts'
import { isUuid } from '../base/uuid.ts'
import { parseRoute, type Route } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import type { Db } from '../store/database.ts'
import { dropUnwantedContents } from '../store/housekeeping.ts'
import {
  insertWorkspace,
  isNameTaken,
  listWorkspaces,
  updateWorkspace,
  workspaceById,
  workspacesByName,
} from '../store/workspaces.ts'
import type { WorkspaceRow } from '../store/workspaces.ts'
import { cutPage } from '../store/page.ts'
import { pageWorkspaceRows } from '../store/views/operations.ts'
import { openRoute } from '../store/routes.ts'
import { audited } from './by.ts'
import { Mistake, parseWorkspaceName } from './mistake.ts'
import { requirePlan } from './plans.ts'

export { readAudit } from './audit-log.ts'
export { audited, type By } from './by.ts'
export { checkDomainFor, makeDomainChecker, type DomainChange, type DomainChecker } from './domain-check.ts'
export { makeDomainNotices } from './domain-notices.ts'
export { domainWatch } from './domain-watch.ts'
export {
  addDomain,
  addDomainFor,
  domainNamed,
  endEd25519For,
  listDomains,
  removeDomain,
  rotateDkimFor,
  showDomain,
  unvouchDomain,
  type Domain,
} from './domains.ts'
export { createKey, createKeyFor, listKeys, revokeKeyFor, whoseKey, type ApiKey } from './keys.ts'
export { makeLive } from './live.ts'
export { beginLoginAnew, createUser, listLogins, removeLogin, setLogin, type Login } from './logins.ts'
export {
  addMailbox,
  addMailboxFor,
  changeMailboxFor,
  listMailboxes,
  removeMailbox,
  showMailbox,
  whoseMailbox,
  type Mailbox,
} from './mailboxes.ts'
export {
  acceptInvitation,
  changeMember,
  invite,
  listInvitations,
  listMembers,
  removeMember,
  showInvitation,
  withdrawInvitation,
} from './members.ts'
export { contentOf } from './message-content.ts'
export {
  findMessage,
  listMessagesOf,
  searchMessages,
  showMessage,
  timelineOf,
  type MessageStory,
  type MessageWish,
  type Timeline,
} from './messages.ts'
export { Mistake, mistakeOf } from './mistake.ts'
export { findSender, makeNotifier, readSystemMailbox, saveSystemMailbox, wayOfNotices, type Notify } from './notices.ts'
export type { Office } from './office.ts'
export { readHealth, readQueue } from './operators.ts'
export { changeWorkspace, showWorkspace } from './own-workspace.ts'
export { addPasskey, askForPasskey, beginPasskey, removePasskey, signInWithPasskey } from './passkeys.ts'
export { makePeople, type Browser, type People, type SignedIn } from './people.ts'
export { listPlans, removePlanAsOperator, setPlan, setPlanAsOperator, type Plan } from './plans.ts'
export { makeAuthenticator, type Authenticator } from './principals.ts'
export { listRefusedOf, pageRefused, type RefusalFilter } from './refused.ts'
export { removeWorkspace } from './removal.ts'
export { listSandbox, previewSandboxMail, readSandboxBytes, showSandboxMail } from './sandbox-inbox.ts'
export { sendAgain } from './send-again.ts'
export { closeSession, endSession, findHolder, listSessions, type Holder } from './sessions.ts'
export {
  createCredentialFor,
  createSmtpCredential,
  listSmtpCredentials,
  revokeCredentialFor,
  whoseCredential,
  type SmtpCredential,
} from './smtp-credentials.ts'
export { standingOf } from './standing.ts'
export { makeSubmitters, type Submitters } from './submitters.ts'
export { importSuppressions, type Imported, type ImportWish } from './suppression-import.ts'
export {
  addSuppression,
  exportSuppressions,
  listSuppressions,
  pageSuppressionsOf,
  removeSuppression,
  type Suppression,
  suppressing,
  undoRule,
  unsuppressFor,
} from './suppressions.ts'
export { readSystemSender, type SystemSender } from './system-sender.ts'
export { readSeries, readUsage } from './usage.ts'
export { webhookNotices } from './webhook-notices.ts'
export { suppressionReasons } from '../store/suppressions.ts'

export type Workspace = Given<Omit<WorkspaceRow, 'routeSealed'>> & {
  /** Its own route, without a login; left out where it takes the installation's. */
  readonly route?: string
}

const nameTaken = (name: string): Mistake =>
  new Mistake(`There is already a workspace named "${name}".`, { code: 'conflict', field: 'name' })

export async function createWorkspace(db: Db, vault: Vault, name: string, plan: string): Promise<Workspace> {
  const clean = parseWorkspaceName(name)
  await requirePlan(db, plan)
  const row = await insertWorkspace(db, randomUUIDv7(), clean, plan)
  if (row === undefined) {
    const isGoing = (await workspacesByName(db, clean))[0]?.removingSince != null
    if (!isGoing) throw nameTaken(clean)
    const words = `The workspace that is named "${clean}" is being removed: the name is free when that has ended.`
    throw new Mistake(words, { code: 'conflict', field: 'name' })
  }
  return presentWorkspace(vault, row)
}

export async function listAllWorkspaces(db: Db, vault: Vault): Promise<Workspace[]> {
  return (await listWorkspaces(db)).map((row) => presentWorkspace(vault, row))
}

/** By its id, or the exact name that operators gave it. One that is being removed takes no changes, and shows nothing. */
export async function findWorkspace(db: Db, vault: Vault, idOrName: string): Promise<Workspace> {
  const found = await findAnyWorkspace(db, vault, idOrName)
  if (found.removingSince !== undefined)
    throw new Mistake(
      `The workspace "${found.name}" is being removed. \`posthorn workspace remove ${found.id}\` carries that on, and so does the service.`,
      { code: 'conflict' },
    )
  return found
}

/** Also one that is being removed. */
export async function findAnyWorkspace(db: Db, vault: Vault, idOrName: string): Promise<Workspace> {
  const rows = await (isUuid(idOrName)
    ? workspaceById(db, idOrName).then((found) => (found === undefined ? [] : [found]))
    : workspacesByName(db, idOrName))
  const [row] = rows
  if (row === undefined)
    throw new Mistake(`There is no workspace "${idOrName}"; \`posthorn workspace list\` shows them all.`)
  // What members choose is shown, never acted on: a command given again for a workspace that is gone must not find somebody else's.
  if (!isUuid(idOrName) && row.name !== idOrName)
    throw new Mistake(
      `There is no workspace "${idOrName}", but its members call ${rows.map(({ id, name }) => `"${name}" (${id})`).join(', ')} so; give its id if you mean it.`,
    )
  return presentWorkspace(vault, row)
}

export interface WorkspaceChanges {
  /** The operators'. */
  readonly name?: string
  readonly plan?: string
  readonly status?: 'active' | 'blocked'
  readonly route?: string
  /** False: body and attachments go as soon as a message is final. */
  readonly keepsContent?: boolean
}

/** `route` is written as POSTHORN_ROUTE, or `default` for the installation's. */
export async function setWorkspace(
  db: Db,
  vault: Vault,
  id: WorkspaceId,
  changes: WorkspaceChanges,
): Promise<Workspace> {
  if (changes.plan !== undefined) await requirePlan(db, changes.plan)
  const route = changes.route === undefined ? undefined : sealRoute(vault, id, changes.route)
  const name = changes.name === undefined ? undefined : parseWorkspaceName(changes.name)
  const { plan, status, keepsContent } = changes
  const wanted = { name, plan, status, keepsContent, ...(route !== undefined && { route }) }
  const row = await updateWorkspace(db, id, wanted).catch((error: unknown) => {
    throw name !== undefined && isNameTaken(error) ? nameTaken(name) : error
  })
  if (row === undefined)
    throw new Mistake(`There is no workspace ${id}, or it is being removed.`, { code: 'not_found' })
  return presentWorkspace(vault, row)
}

function sealRoute(vault: Vault, id: WorkspaceId, route: string): Buffer | null {
  if (route === 'default') return null
  try {
    parseRoute(route)
  } catch (error) {
    throw new Mistake(`The route ${(error as Error).message}; default is the installation's.`, { field: 'route' })
  }
  return vault.seal(route, sealedAs.route(id))
}

// What operators do, at the keyboard and in the dashboard: the same acts, each with its audit row.

export async function pageWorkspaces(
  { db, vault }: { readonly db: Db; readonly vault: Vault },
  wish: { readonly before?: string; readonly text?: string; readonly most: number },
): Promise<Page<Workspace>> {
  const rows = await pageWorkspaceRows(db, wish.before, (wish.text ?? '').trim(), wish.most + 1)
  const page = cutPage(rows, wish.most)
  return given<Page<Workspace>>({
    items: page.shown.map((row) => presentWorkspace(vault, row)),
    next: page.last?.id,
  })
}

export function createWorkspaceAsOperator(
  { db, vault }: { readonly db: Db; readonly vault: Vault },
  actor: string,
  name: string,
  plan: string,
): Promise<Workspace> {
  return audited(
    db,
    { actor },
    'workspace.created',
    (tx) => createWorkspace(tx, vault, name, plan),
    (workspace) => ({ target: workspace.id, facts: { name: workspace.name, plan } }),
  )
}

/** The row stands in the workspace's own log: its members see that they were blocked, and by whom. A route may hold a password: left out. */
export async function changeWorkspaceAsOperator(
  { db, vault }: { readonly db: Db; readonly vault: Vault },
  actor: string,
  id: WorkspaceId,
  changes: WorkspaceChanges,
): Promise<Workspace> {
  const { route, ...open } = changes
  // As its members do (own-workspace.ts).
  const drop = async (on: Db) => void (changes.keepsContent === true && (await dropUnwantedContents(on, id)))
  await drop(db)
  return audited(
    db,
    { actor, workspaceId: id },
    'workspace.changed',
    async (tx) => {
      await drop(tx)
      return setWorkspace(tx, vault, id, changes)
    },
    (workspace) => ({
      target: id,
      facts: { ...open, ...(route !== undefined && { route: workspace.route ?? 'default' }) },
    }),
  )
}

function presentWorkspace(vault: Vault, { routeSealed, ...row }: WorkspaceRow): Workspace {
  return { ...shown(row), ...(routeSealed !== null && { route: describeRoute(openRoute(vault, row.id, routeSealed)) }) }
}

function describeRoute(route: Route): string {
  if (route.kind === 'sandbox') return route.kind
  const where =
    route.kind === 'relay' ? `${route.implicitTls ? 'smtps' : 'smtp'}://${route.host}:${route.port}` : route.kind
  return route.tlsRequired === true ? `${where}?tls=required` : where
}
