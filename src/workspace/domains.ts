// Sending domains, each with a DKIM key of its own, and the DNS records that they ask for (decisions H).
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { sealedAs, type Vault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { parseAddress } from '../mail/address.ts'
import { dkimRecord, generateDkimKey } from '../mail/dkim.ts'
import type { Db } from '../store/database.ts'
import { findDomain, insertDomain, listDomainRows, verifyDomain } from '../store/senders.ts'
import type { DomainRow } from '../store/senders.ts'
import { Mistake } from './mistake.ts'

export interface DnsRecord {
  readonly type: 'TXT' | 'CNAME'
  readonly name: string
  readonly value: string
  /** `advised`: worth having, but nothing waits for it. */
  readonly status: 'pending' | 'verified' | 'advised'
}

export interface Domain {
  readonly id: string
  readonly name: string
  readonly status: 'pending' | 'verified' | 'degraded' | 'failed'
  readonly createdAt: Date
  readonly verifiedAt?: Date
  readonly records: readonly DnsRecord[]
}

/** `verified` is the operator's word, for tests and migrations; it also counts for a domain that is there already. */
export async function addDomain(
  tools: { readonly db: Db; readonly vault: Vault; readonly hostname: string },
  workspace: WorkspaceId,
  text: string,
  verified: boolean,
): Promise<Domain> {
  const name = parseAddress(`postmaster@${text}`)?.domain
  if (name === undefined)
    throw new Mistake(`"${text}" is not the name of a domain, such as example.org.`, { field: 'name' })
  const known = verified && (await verifyDomain(tools.db, workspace, name))
  if (!known) {
    const { privateKeyPem, publicKeyBase64 } = await generateDkimKey()
    const inserted = await insertDomain(tools.db, workspace, {
      id: randomUUIDv7(),
      name,
      status: verified ? 'verified' : 'pending',
      ownershipToken: randomBytes(24).toString('base64url'),
      selector: `ph${new Date().toISOString().slice(0, 7).replace('-', '')}`,
      publicKey: publicKeyBase64,
      privateKeySealed: tools.vault.seal(privateKeyPem, sealedAs.dkimKey(workspace, name)),
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

export function presentDomain(row: DomainRow, hostname: string): Domain {
  const status = row.status === 'verified' ? 'verified' : 'pending'
  const { name } = row
  const records: DnsRecord[] = [
    { type: 'TXT', name: `_posthorn.${name}`, value: `posthorn-verify=${row.ownership_token}`, status },
    ...row.keys.map(({ selector, public_key }): DnsRecord => ({
      type: 'TXT',
      name: `${selector}._domainkey.${name}`,
      value: dkimRecord(public_key),
      status,
    })),
    // A subdomain of its own for bounces: the SPF record of the domain itself is not touched.
    { type: 'CNAME', name: `bounces.${name}`, value: hostname, status },
    { type: 'TXT', name: `_dmarc.${name}`, value: 'v=DMARC1; p=none', status: 'advised' },
  ]
  return {
    id: row.id,
    name,
    status: row.status,
    createdAt: row.created_at,
    ...(row.verified_at !== null && { verifiedAt: row.verified_at }),
    records,
  }
}
