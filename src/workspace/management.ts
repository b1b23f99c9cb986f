// What members and keys change in their workspace: the same acts as the operator's commands, on somebody's behalf, each with its audit row in
// one transaction. Whether the caller's scopes allow the act has been asked before; what only the values can tell is asked here.
import { remembered } from '../base/remembered.ts'
import type { Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { parseAddress } from '../mail/address.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { listKeyRows, listMadeByKey, makeRoomForKey, revokeKeyRow } from '../store/access.ts'
import { pageAudit, pageInstallationAudit, type AuditRow } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { endEd25519 } from '../store/domain-checks.ts'
import { dropUnwantedContents } from '../store/housekeeping.ts'
import { lockMembers } from '../store/members.ts'
import { cutPage } from '../store/page.ts'
import { deleteDomain, findDomainById, listDomainRows, takeBackWord } from '../store/senders.ts'
import { listCredentialRows, makeRoomForCredential, revokeCredentialRow } from '../store/smtp-credentials.ts'
import {
  countSuppressions,
  countSuppressionsAmong,
  searchSuppressions,
  type SuppressionReason,
} from '../store/suppressions.ts'
import { changeOwnWorkspace, workspaceById, type WorkspaceRow } from '../store/workspaces.ts'
import { audited, stillBy, type By } from './by.ts'
import { insertNewDomain, newDomain, newDomainKey, presentDomain, rotateDkim, type Domain } from './domains.ts'
import { createKey, presentKey, withinItsMaker, type ApiKey, type KeyWish, type RevokedKey } from './keys.ts'
import { withdrawInvitationsOf } from './members.ts'
import { Mistake, notThere, parseWorkspaceName } from './mistake.ts'
import type { Office } from './office.ts'
import { createSmtpCredential, presentCredential, type SmtpCredential } from './smtp-credentials.ts'
import {
  addSuppression,
  importSuppressions,
  presentSuppression,
  removeSuppression,
  undoRule,
  type ImportWish,
  type Suppression,
} from './suppressions.ts'

interface Tools {
  readonly db: Db
  readonly vault: Vault
  readonly hostname: string
}

// --------------------------------------------------------------------------------------------------------------------- domains

export async function addDomainFor(
  { db, vault, hostname }: Tools,
  by: By,
  name: string,
  vouched = false,
): Promise<Domain> {
  await roomForDomain(db, by.workspaceId)
  const made = await newDomain(vault, by.workspaceId, name)
  return audited(
    db,
    by,
    'domain.added',
    async (tx) => {
      // One at a time, or those who come together would all find room for one more.
      await lockMembers(tx, by.workspaceId)
      await roomForDomain(tx, by.workspaceId)
      return insertNewDomain({ db: tx, hostname }, by.workspaceId, made, vouched)
    },
    (domain) => ({ target: domain.name, ...(vouched && { facts: { vouched } }) }),
  )
}

/** Asked before a key is made, too. */
async function roomForDomain(db: Db, workspace: WorkspaceId): Promise<void> {
  if ((await listDomainRows(db, workspace)).length >= limits.domainsPerWorkspaceMax)
    throw new Mistake(`A workspace has at most ${limits.domainsPerWorkspaceMax} domains.`, { code: 'conflict' })
}

export async function showDomain(
  { db, hostname }: Pick<Tools, 'db' | 'hostname'>,
  workspace: WorkspaceId,
  id: string,
): Promise<Domain> {
  const row = await findDomainById(db, workspace, id)
  if (row === undefined) throw notThere('domain')
  return presentDomain(row, hostname)
}

/** Makes another DKIM key; `rotateDkim` says when it begins to sign. */
export async function rotateDkimFor(
  { db, vault, hostname }: Tools,
  by: By,
  id: string,
  algorithm: DkimAlgorithm = 'rsa-sha256',
): Promise<Domain> {
  const key = await newDomainKey({ db, vault }, by.workspaceId, id, algorithm)
  return audited(
    db,
    by,
    'domain.dkim_prepared',
    async (tx) => {
      const domain = await rotateDkim({ db: tx, hostname }, by.workspaceId, id, key)
      if (domain === undefined) throw notThere('domain')
      return domain
    },
    (domain) => ({ target: domain.name, facts: { algorithm } }),
  )
}

/** The domain signs with RSA alone: a key that waits is gone, one that signs is kept as a replaced one is. */
export async function endEd25519For(
  { db, hostname }: Pick<Tools, 'db' | 'hostname'>,
  by: By,
  id: string,
): Promise<Domain> {
  const { domain } = await audited(
    db,
    by,
    'domain.dkim_ended',
    async (tx) => {
      const selectors = await endEd25519(tx, by.workspaceId, id)
      const domain = await showDomain({ db: tx, hostname }, by.workspaceId, id)
      if (selectors.length === 0)
        throw new Mistake(`${domain.name} has no Ed25519 key that signs or waits.`, { code: 'not_found' })
      return { domain, selectors }
    },
    ({ domain: { name }, selectors }) => ({ target: name, facts: { selectors } }),
  )
  return domain
}

export async function checkDomainFor(office: Pick<Office, 'domains'>, by: By, id: string): Promise<Domain> {
  const domain = await office.domains.check(by.workspaceId, id)
  if (domain === undefined) throw notThere('domain')
  return domain
}

/** A domain that an operator vouched for keeps its state, and is checked like any other from now on. */
export function unvouchDomain({ db, hostname }: Pick<Tools, 'db' | 'hostname'>, by: By, id: string): Promise<Domain> {
  return audited(
    db,
    by,
    'domain.unvouched',
    async (tx) => {
      const isTakenBack = await takeBackWord(tx, by.workspaceId, id)
      const domain = await showDomain({ db: tx, hostname }, by.workspaceId, id)
      if (!isTakenBack)
        throw new Mistake(`For ${domain.name} nobody vouches: it is checked anyway.`, { code: 'conflict' })
      return domain
    },
    (domain) => ({ target: domain.name }),
  )
}

/** Its name. */
export function removeDomain({ db }: Pick<Tools, 'db'>, by: By, id: string): Promise<string> {
  return audited(
    db,
    by,
    'domain.removed',
    async (tx) => {
      const name = await deleteDomain(tx, by.workspaceId, id)
      if (name !== undefined) return name
      if ((await findDomainById(tx, by.workspaceId, id)) === undefined) throw notThere('domain')
      throw new Mistake('A domain that has mailboxes stays; remove its mailboxes first.', { code: 'conflict' })
    },
    (name) => ({ target: name }),
  )
}

// ------------------------------------------------------------------------------------------------------------------------ keys

/** A key never gets a scope that its maker lacks, nor a later end. */
export function createKeyFor({ db }: Tools, by: By, wish: KeyWish): Promise<ApiKey & { readonly key: string }> {
  return audited(
    db,
    by,
    'key.created',
    async (tx) => {
      const { now, end } = await stillBy(tx, by, 'keys.write')
      const lacked = wish.scopes.filter((scope) => !now.scopes.has(scope)).join(', ')
      if (lacked !== '')
        throw new Mistake(`You cannot give the scope ${lacked.slice(0, 200)}: you do not have it yourself.`, {
          code: 'insufficient_scope',
          field: 'scopes',
        })
      const wanted = withinItsMaker(wish, end)
      await makeRoomForKey(tx, by.workspaceId, limits.keysPerWorkspaceMax)
      if ((await listKeyRows(tx, by.workspaceId)).length >= limits.keysPerWorkspaceMax)
        throw new Mistake(`A workspace has at most ${limits.keysPerWorkspaceMax} keys.`, { code: 'conflict' })
      return createKey(tx, by.workspaceId, wanted)
    },
    ({ id, name, scopes }) => ({ target: id, facts: { name, scopes } }),
  )
}

/** What it has offered goes with it; what it has made stays, and is named. That is looked for behind the revocation: it may take long, or fail. */
export async function revokeKeyFor({ db }: Tools, by: By, id: string): Promise<RevokedKey> {
  const key = await audited(
    db,
    by,
    'key.revoked',
    async (tx) => {
      await lockMembers(tx, by.workspaceId)
      const row = await revokeKeyRow(tx, by.workspaceId, id)
      if (row === undefined) throw notThere('API key')
      await withdrawInvitationsOf(tx, by, `key:${row.id}`)
      return presentKey(row)
    },
    ({ name }) => ({ target: id, facts: { name } }),
  )
  const made = await listMadeByKey(db, by.workspaceId, key.id)
  return { ...key, ...(made.length > 0 && { stillValid: made }) }
}

/** A credential sends mail: nobody makes one who may not send. It ends with the key that makes it, as a key does. */
export function createCredentialFor({ db, vault }: Tools, by: By, name: string) {
  return audited(
    db,
    by,
    'smtp_credential.created',
    async (tx) => {
      const { now, end } = await stillBy(tx, by, 'smtp-credentials.write')
      if (!now.scopes.has('mail.send'))
        throw new Mistake('You cannot make an SMTP credential: you do not have the scope mail.send yourself.', {
          code: 'insufficient_scope',
        })
      await makeRoomForCredential(tx, by.workspaceId, limits.keysPerWorkspaceMax)
      if ((await listCredentialRows(tx, by.workspaceId)).length >= limits.keysPerWorkspaceMax)
        throw new Mistake(`A workspace has at most ${limits.keysPerWorkspaceMax} credentials.`, { code: 'conflict' })
      return createSmtpCredential(tx, vault, by.workspaceId, name, end)
    },
    (credential) => ({ target: credential.id, facts: { name: credential.name, username: credential.username } }),
  )
}

export function revokeCredentialFor({ db }: Tools, by: By, id: string): Promise<SmtpCredential> {
  return audited(
    db,
    by,
    'smtp_credential.revoked',
    async (tx) => {
      const row = await revokeCredentialRow(tx, by.workspaceId, id)
      if (row === undefined) throw notThere('SMTP credential')
      return presentCredential(row)
    },
    (credential) => ({ target: id, facts: { name: credential.name, username: credential.username } }),
  )
}

// ---------------------------------------------------------------------------------------------------------------- suppressions

/** In the order of addresses. The cursor is the last address that the page before looked at: of those with a prefix or reason it looks at a bounded number. */
export async function pageSuppressionsOf(
  { db }: Tools,
  workspace: WorkspaceId,
  wish: {
    readonly prefix?: string
    readonly reason?: SuppressionReason
    readonly after?: string
    readonly most: number
  },
): Promise<Page<Suppression>> {
  const { most, reason } = wish
  const text = (wish.prefix ?? '').trim()
  // A whole address is looked for as it is compared.
  const prefix = parseAddress(text)?.key ?? text.toLowerCase().normalize('NFC')
  const { rows, next } = await searchSuppressions(db, workspace, { after: wish.after ?? '', prefix, reason, most })
  return { items: rows.map(presentSuppression), ...(next !== undefined && { next }) }
}

// Suppressions write down who did it in their own statements.

/** How many a workspace has is counted now and then: whoever has very many adds some more before the count is felt. */
export function suppressing(
  { db }: Pick<Tools, 'db'>,
  most: number = limits.suppressionsPerWorkspaceMax,
): (by: By, recipient: string) => Promise<Suppression> {
  // A count that takes too long refuses nobody.
  const count = (workspace: string) => countSuppressions(db, workspace as WorkspaceId, most).catch(() => 0)
  const counted = remembered(count, { keepMs: () => limits.suppressionsCountedMs, most: limits.suppressionAskersMax })
  return async (by, recipient) => {
    const key = parseAddress(recipient)?.key
    const isFull = key !== undefined && (await counted(by.workspaceId)) >= most
    if (isFull && (await countSuppressionsAmong(db, by.workspaceId, [key])) === 0)
      throw new Mistake(`A workspace has at most ${most} suppressed recipients.`, { code: 'conflict' })
    return addSuppression(db, by.workspaceId, recipient, by.actor)
  }
}

export async function unsuppressFor({ db }: Tools, by: By, recipient: string): Promise<void> {
  if (parseAddress(recipient) === undefined) throw notThere('suppression')
  await removeSuppression(db, by.workspaceId, recipient, by.actor)
}

/** Nothing, where a line is wrong. */
export const importSuppressionsFor = ({ db }: Pick<Tools, 'db'>, by: By, csv: string, wish: ImportWish = {}) =>
  importSuppressions(db, by.workspaceId, csv, by.actor, wish)

export const undoRuleFor = (
  { db }: Tools,
  by: By,
  range: { readonly rule: string; readonly since: string; readonly until?: string },
) => undoRule(db, by.workspaceId, range, by.actor)

// ------------------------------------------------------------------------------------------------------------------- workspace

export interface OwnWorkspace {
  readonly id: WorkspaceId
  readonly name: string
  readonly status: 'active' | 'blocked'
  readonly plan: string
  /** False: content is dropped as soon as a message is final. */
  readonly keepsContent: boolean
  readonly createdAt: Date
}

export async function showWorkspace({ db }: Tools, id: WorkspaceId): Promise<OwnWorkspace> {
  const row = await workspaceById(db, id)
  if (row === undefined) throw notThere('workspace')
  return presentOwn(row)
}

export async function changeWorkspace(
  { db }: Tools,
  by: By,
  changes: { readonly name?: string; readonly keepsContent?: boolean },
): Promise<OwnWorkspace> {
  const { keepsContent } = changes
  const name = changes.name === undefined ? undefined : parseWorkspaceName(changes.name)
  // What has been dropped so far, perhaps only by name, does not come back with the switch. In bites that are committed each: there may be many.
  if (keepsContent === true) await dropUnwantedContents(db)
  return audited(
    db,
    by,
    'workspace.changed',
    async (tx) => {
      const row = await changeOwnWorkspace(tx, by.workspaceId, { name, keepsContent })
      if (row === undefined) throw notThere('workspace')
      return presentOwn(row)
    },
    () => ({ target: by.workspaceId, facts: changes }),
  )
}

function presentOwn(row: WorkspaceRow): OwnWorkspace {
  const { id, status, plan, keeps_content: keepsContent, created_at: createdAt } = row
  return { id, name: row.own_name ?? row.name, status, plan, keepsContent, createdAt }
}

export interface AuditLine {
  readonly id: string
  readonly at: Date
  readonly actor: string
  readonly actorName?: string
  readonly action: string
  readonly target?: string
  readonly facts?: object
}

/** Newest first. Without a workspace: what concerns the installation. */
export async function readAudit(
  { db }: Pick<Tools, 'db'>,
  workspace: WorkspaceId | undefined,
  before: string | undefined,
  most: number,
): Promise<Page<AuditLine>> {
  const rows = await (workspace === undefined
    ? pageInstallationAudit(db, before, most + 1)
    : pageAudit(db, workspace, before, most + 1))
  const { shown, last } = cutPage(rows, most)
  return { items: shown.map(presentAudit), ...(last !== undefined && { next: last.id }) }
}

function presentAudit({ id, at, actor, action, target, facts, actor_name: actorName }: AuditRow): AuditLine {
  return {
    id,
    at,
    actor,
    ...(actorName !== null && { actorName }),
    action,
    ...(target !== null && { target }),
    ...(facts !== null && { facts }),
  }
}
