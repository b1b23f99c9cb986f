// Sending domains, each with DKIM keys of its own: adding, listing, and a new key beside the one that signs (decisions H).
import { randomBytes, randomInt, randomUUIDv7 } from 'node:crypto'
import { sealedAs, type Vault } from '../base/secret.ts'
import { turnFor, turns } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { DomainStatus } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { parseDomain } from '../mail/address.ts'
import { generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts'
import { returnPathName } from '../mail/return-path.ts'
import type { Db } from '../store/database.ts'
import { prepareDkimKey } from '../store/domain-checks.ts'
import { findDomain, findDomainById, insertDomain, listDomainRows, verifyDomain } from '../store/senders.ts'
import type { DomainRow } from '../store/senders.ts'
import { recordsOf, zoneFile, type DnsRecord, type Found } from './domain-records.ts'
import { busy, Mistake } from './mistake.ts'

export interface Domain {
  readonly id: string
  readonly name: string
  readonly status: DomainStatus
  readonly createdAt: Date
  readonly verifiedAt?: Date
  /** Verified by an operator's word: checks say what they see, and change nothing. */
  readonly vouched: boolean
  /** Of a broken domain: until when it still sends. */
  readonly brokenSince?: Date
  readonly checkedAt?: Date
  /** When it is looked at next by itself. */
  readonly nextCheckAt?: Date
  /** The name that bounces come back to, where the domain has its own. */
  readonly returnPathHost?: string
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

/** What a domain brings along. It is made before a transaction begins: a key takes as long as a hundred statements, and waits for its turn. */
export interface NewDomain extends MadeKey {
  readonly name: string
}

export async function newDomain(vault: Vault, workspace: WorkspaceId, text: string): Promise<NewDomain> {
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

/** `verified` is the operator's word, for tests and migrations; it also counts for a domain that is there already. */
export async function insertNewDomain(
  { db, hostname }: Pick<Tools, 'db' | 'hostname'>,
  workspace: WorkspaceId,
  { name, publicKey, privateKeySealed }: NewDomain,
  verified: boolean,
): Promise<Domain> {
  const known = verified && (await verifyDomain(db, workspace, name))
  if (!known) {
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
  return presentDomain(row, hostname)
}

/** Both, where nobody else waits for the connection. */
export async function addDomain(
  tools: Tools,
  workspace: WorkspaceId,
  text: string,
  verified: boolean,
): Promise<Domain> {
  return insertNewDomain(tools, workspace, await newDomain(tools.vault, workspace, text), verified)
}

export async function listDomains(db: Db, workspace: WorkspaceId, hostname: string): Promise<Domain[]> {
  return (await listDomainRows(db, workspace)).map((row) => presentDomain(row, hostname))
}

export async function domainNamed(db: Db, workspace: WorkspaceId, text: string): Promise<DomainRow> {
  const name = parseDomain(text)
  const row = name === undefined ? undefined : await findDomain(db, workspace, name)
  if (row === undefined)
    throw new Mistake(`The workspace has no domain "${text}"; \`posthorn domain list\` shows those it has.`)
  return row
}

export interface NewDomainKey extends MadeKey {
  readonly algorithm: DkimAlgorithm
}

/** Another key for a domain, as above; undefined where one of this algorithm waits already, or the workspace has no such domain. */
export async function newDomainKey(
  { db, vault }: Pick<Tools, 'db' | 'vault'>,
  workspace: WorkspaceId,
  id: string,
  algorithm: DkimAlgorithm = 'rsa-sha256',
): Promise<NewDomainKey | undefined> {
  const row = await findDomainById(db, workspace, id)
  if (row === undefined || row.keys.some((key) => key.state === 'pending' && key.algorithm === algorithm))
    return undefined
  return { algorithm, ...(await makeKey(vault, workspace, row.name, algorithm)) }
}

/**
 * Gives the domain another DKIM key, whose record is to be set beside the others'. The next check that sees it lets it sign, in place of the one of its
 * algorithm that does; one that waits already stays instead. Undefined where the workspace has no such domain.
 */
export async function rotateDkim(
  { db, hostname }: Pick<Tools, 'db' | 'hostname'>,
  workspace: WorkspaceId,
  id: string,
  key: NewDomainKey | undefined,
): Promise<Domain | undefined> {
  if (key !== undefined) await prepareDkimKey(db, workspace, id, { selector: newSelector(), ...key })
  const row = await findDomainById(db, workspace, id)
  return row && presentDomain(row, hostname)
}

interface MadeKey {
  readonly publicKey: string
  readonly privateKeySealed: Buffer
}

/** One at a time, by turns of the workspaces: each takes a processor for a tenth of a second, and a thread that passwords and signatures need too. */
const turn = turns({ most: 1, share: 1, waitMs: limits.dkimKeyWaitMs })

async function makeKey(
  vault: Vault,
  workspace: WorkspaceId,
  domain: string,
  algorithm?: DkimAlgorithm,
): Promise<MadeKey> {
  const leave = await turnFor(workspace, turn, () => busy('Too many DKIM keys are being made'))
  const { privateKeyPem, publicKeyBase64 } = await generateDkimKey(algorithm).finally(leave)
  return {
    publicKey: publicKeyBase64,
    privateKeySealed: vault.seal(privateKeyPem, sealedAs.dkimKey(workspace, domain)),
  }
}

/**
 * `ph202611-k7q2`: says to the owner of the zone how old a key is. The letters keep apart the keys that a domain has in several workspaces or
 * installations, or had before it was added again: none of them knows of the others, and two keys at one name spoil both (RFC 6376 3.6.2.2).
 */
function newSelector(): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567' // base32, RFC 4648 6
  const letters = Array.from({ length: 4 }, () => alphabet[randomInt(alphabet.length)])
  return `ph${new Date().toISOString().slice(0, 7).replace('-', '')}-${letters.join('')}`
}

export function presentDomain(row: DomainRow, hostname: string): Domain {
  const records = recordsOf(row, hostname)
  const found = row.found as Found | null
  return {
    id: row.id,
    name: row.name,
    status: row.status,
    createdAt: row.created_at,
    ...(row.verified_at !== null && { verifiedAt: row.verified_at }),
    vouched: row.vouched,
    ...(row.degraded_at !== null && { brokenSince: row.degraded_at }),
    ...(row.checked_at !== null && { checkedAt: row.checked_at }),
    ...(row.check_due_at !== null && { nextCheckAt: row.check_due_at }),
    ...(row.return_path_host !== null && { returnPathHost: row.return_path_host }),
    records,
    zoneFile: zoneFile(
      records.filter(
        ({ status, waitsFor }) => status !== 'verified' && status !== 'retiring' && waitsFor === undefined,
      ),
    ),
    advice: found?.advice ?? [],
  }
}
