// Sending domains, each with DKIM keys of its own: adding, listing, and a new key beside the one that signs (decisions H).
import { randomBytes, randomInt, randomUUIDv7 } from 'node:crypto'
import { sealedAs, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { DomainStatus } from '../domain/domain-state.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { parseAddress } from '../mail/address.ts'
import { generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts'
import { returnPathName } from '../mail/return-path.ts'
import type { Db } from '../store/database.ts'
import { prepareDkimKey } from '../store/domain-checks.ts'
import { findDomain, findDomainById, insertDomain, listDomainRows, verifyDomain } from '../store/senders.ts'
import type { DomainRow } from '../store/senders.ts'
import { recordsOf, zoneFile, type DnsRecord, type Found } from './domain-records.ts'
import { Mistake } from './mistake.ts'

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

/** `verified` is the operator's word, for tests and migrations; it also counts for a domain that is there already. */
export async function addDomain(
  tools: Tools,
  workspace: WorkspaceId,
  text: string,
  verified: boolean,
): Promise<Domain> {
  const name = parseAddress(`postmaster@${text}`)?.domain
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
  const known = verified && (await verifyDomain(tools.db, workspace, name))
  if (!known) {
    const { publicKey, privateKeySealed } = await makeKey(tools.vault, workspace, name)
    const inserted = await insertDomain(tools.db, workspace, {
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
  const row = await findDomain(tools.db, workspace, name)
  if (row === undefined) throw new Mistake(`The domain ${name} was removed meanwhile.`, { code: 'conflict' })
  return presentDomain(row, tools.hostname)
}

export async function listDomains(db: Db, workspace: WorkspaceId, hostname: string): Promise<Domain[]> {
  return (await listDomainRows(db, workspace)).map((row) => presentDomain(row, hostname))
}

export async function domainNamed(db: Db, workspace: WorkspaceId, text: string): Promise<DomainRow> {
  const name = parseAddress(`postmaster@${text}`)?.domain
  const row = name === undefined ? undefined : await findDomain(db, workspace, name)
  if (row === undefined)
    throw new Mistake(`The workspace has no domain "${text}"; \`posthorn domain list\` shows those it has.`)
  return row
}

/**
 * Makes another DKIM key, whose record is to be set beside the others'. The next check that sees it lets it sign, in place of the one of its algorithm
 * that does; one that waits already is shown again. Undefined where the workspace has no such domain.
 */
export async function rotateDkim(
  tools: Tools,
  workspace: WorkspaceId,
  id: string,
  algorithm: DkimAlgorithm = 'rsa-sha256',
): Promise<Domain | undefined> {
  const { db, vault, hostname } = tools
  const row = await findDomainById(db, workspace, id)
  if (row === undefined) return undefined
  if (!row.keys.some((key) => key.state === 'pending' && key.algorithm === algorithm))
    await prepareDkimKey(db, workspace, id, {
      selector: newSelector(),
      algorithm,
      ...(await makeKey(vault, workspace, row.name, algorithm)),
    })
  const after = await findDomainById(db, workspace, id)
  return after && presentDomain(after, hostname)
}

async function makeKey(vault: Vault, workspace: WorkspaceId, domain: string, algorithm?: DkimAlgorithm) {
  const { privateKeyPem, publicKeyBase64 } = await generateDkimKey(algorithm)
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
