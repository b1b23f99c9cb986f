// Sending domains, each with DKIM keys of its own (decisions H): added, shown, vouched for no longer, removed; and a new key beside the one that signs.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import type { Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { parseDomain } from '../mail/address.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { returnPathName } from '../mail/return-path.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { endEd25519, prepareDkimKey } from '../store/domain-checks.ts'
import {
  deleteDomain,
  findDomain,
  findDomainById,
  insertDomain,
  listDomainRows,
  takeBackWord,
  verifyDomain,
  type DomainRow,
} from '../store/domains.ts'
import { audited, stillBy, type By } from './by.ts'
import { makeKey, newDomainKey, newSelector, type MadeKey } from './domain-keys.ts'
import { recordsOf, zoneFile, type DnsRecord, type Found } from './domain-records.ts'
import { Mistake, notThere } from './mistake.ts'

export interface Domain extends Given<Omit<DomainRow, 'ownershipToken' | 'keys' | 'checksUnanswered' | 'found'>> {
  readonly records: readonly DnsRecord[]
  /** The records that are still to set, as lines of a zone file. */
  readonly zoneFile: string
  readonly advice: readonly string[]
}

interface Tools {
  readonly db: Db
  readonly vault: Vault
  readonly hostname: string
}

/** What a domain brings along; made before a transaction begins, as its key is. */
interface NewDomain extends MadeKey {
  readonly name: string
}

async function newDomain(vault: Vault, workspace: WorkspaceId, text: string): Promise<NewDomain> {
  const name = parseDomain(text)
  if (name === undefined)
    throw new Mistake(`"${text}" is not the name of a domain, such as example.org.`, { field: 'name' })
  if (`.${name}`.endsWith(`.${simulatorDomain}`))
    throw new Mistake(`${name} is reserved: ${simulatorDomain} is the simulator's domain, and nobody sends from it.`, {
      field: 'name',
    })
  // A return path is a token of 44 octets at a host below the domain, and has to be an address (RFC 5321 4.5.3.1.3); DKIM's name is shorter.
  if (`${'t'.repeat(44)}@${returnPathName(name)}`.length > limits.addressOctetsMax)
    throw new Mistake(
      `${name} is too long: the names below it that bounces come back to would be longer than an address may be.`,
      {
        field: 'name',
      },
    )
  return { name, ...(await makeKey(vault, workspace, name)) }
}

/** `verified` is the operator's word, for tests and migrations; it also counts for a domain that is there already: then that is `isKnown`. */
async function insertNewDomain(
  { db, hostname }: Pick<Tools, 'db' | 'hostname'>,
  workspace: WorkspaceId,
  { name, publicKey, privateKeySealed }: NewDomain,
  verified: boolean,
): Promise<{ readonly domain: Domain; readonly isKnown: boolean }> {
  const isKnown = verified && (await verifyDomain(db, workspace, name))
  if (!isKnown) {
    const inserted = await insertDomain(db, workspace, {
      id: randomUUIDv7(),
      name,
      status: verified ? 'verified' : 'pending',
      ownershipToken: randomBytes(24).toString('base64url'),
      selector: newSelector(),
      publicKey,
      privateKeySealed,
    })
    if (!inserted)
      throw new Mistake(`The workspace already has the domain ${name}.`, { code: 'conflict', field: 'name' })
  }
  const row = await findDomain(db, workspace, name)
  if (row === undefined) throw new Mistake(`The domain ${name} was removed meanwhile.`, { code: 'conflict' })
  return { domain: presentDomain(row, hostname), isKnown }
}

/** In one go, where nobody else waits for the connection meanwhile. */
export async function addDomain(
  tools: Tools,
  workspace: WorkspaceId,
  text: string,
  verified: boolean,
): Promise<Domain> {
  return (await insertNewDomain(tools, workspace, await newDomain(tools.vault, workspace, text), verified)).domain
}

export async function addDomainFor(
  { db, vault, hostname }: Tools,
  by: By,
  name: string,
  vouched = false,
): Promise<Domain> {
  await roomForDomain(db, by.workspaceId, name)
  const made = await newDomain(vault, by.workspaceId, name)
  return db.transaction(async (tx) => {
    // One at a time: several that come together would all find room for one more.
    await stillBy(tx, by, 'domains.write')
    await roomForDomain(tx, by.workspaceId, made.name)
    const { domain, isKnown } = await insertNewDomain({ db: tx, hostname }, by.workspaceId, made, vouched)
    const { actor, workspaceId } = by
    const action = isKnown ? 'domain.vouched' : 'domain.added'
    await writeAudit(tx, { actor, workspaceId, action, target: domain.name, ...(vouched && { facts: { vouched } }) })
    return domain
  })
}

/** Asked before a key is made, too. One that is there needs none: an operator may vouch for it, and everybody else hears that it is there. */
async function roomForDomain(db: Db, workspace: WorkspaceId, text: string): Promise<void> {
  const rows = await listDomainRows(db, workspace)
  const wanted = parseDomain(text)
  if (rows.length >= limits.domainsPerWorkspaceMax && !rows.some(({ name }) => name === wanted))
    throw new Mistake(`A workspace has at most ${limits.domainsPerWorkspaceMax} domains.`, { code: 'conflict' })
}

export async function listDomains(db: Db, workspace: WorkspaceId, hostname: string): Promise<Domain[]> {
  return (await listDomainRows(db, workspace)).map((row) => presentDomain(row, hostname))
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

export async function domainNamed(db: Db, workspace: WorkspaceId, text: string): Promise<DomainRow> {
  const name = parseDomain(text)
  const row = name === undefined ? undefined : await findDomain(db, workspace, name)
  if (row === undefined)
    throw new Mistake(`The workspace has no domain "${text}"; \`posthorn domain list\` shows those it has.`)
  return row
}

/**
 * Gives the domain another DKIM key, whose record is to be set beside the others'. The next check that sees it lets it sign, in place of the one of its
 * algorithm that does; one that waits already stays instead.
 */
export async function rotateDkimFor(
  { db, vault, hostname }: Tools,
  by: By,
  id: string,
  algorithm: DkimAlgorithm = 'rsa-sha256',
): Promise<Domain> {
  const key = await newDomainKey({ db, vault }, by.workspaceId, id, algorithm)
  if (key === undefined) return showDomain({ db, hostname }, by.workspaceId, id)
  return db.transaction(async (tx) => {
    const { actor, workspaceId } = by
    // Behind the making of the key: it takes long, and may have to wait.
    await stillBy(tx, by, 'domains.write')
    const isMade = await prepareDkimKey(tx, workspaceId, id, { selector: newSelector(), ...key })
    const domain = await showDomain({ db: tx, hostname }, workspaceId, id)
    // Of two who ask meanwhile, one is given the other's.
    if (isMade)
      await writeAudit(tx, {
        actor,
        workspaceId,
        action: 'domain.dkim_prepared',
        target: domain.name,
        facts: { algorithm },
      })
    return domain
  })
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

/** The operator's word is taken back: the domain keeps its state, and is checked like any other from now on. */
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

/** A policy of the owner's own that is wrong is to be mended: another one beside it would spoil both. */
const isToSet = ({ purpose, status, waitsFor }: DnsRecord): boolean =>
  status !== 'verified' &&
  status !== 'retiring' &&
  waitsFor === undefined &&
  (purpose !== 'dmarc' || status !== 'wrong')

export function presentDomain(row: DomainRow, hostname: string): Domain {
  const records = recordsOf(row, hostname)
  const { ownershipToken: _token, keys: _keys, checksUnanswered: _unanswered, found, ...known } = row
  return {
    ...shown(known),
    records,
    zoneFile: zoneFile(records.filter(isToSet)),
    advice: (found as Found | null)?.advice ?? [],
  }
}
