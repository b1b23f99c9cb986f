// What a domain's mail is signed with, and where its bounces go: read anew every minute, because keys change. A key itself is opened once: parsing it, and
// what OpenSSL works out at the first signature of a key and keeps with it, cost more than a signature does.
import { BoundedMap } from '../base/bounded-map.ts'
import { remembered } from '../base/remembered.ts'
import { sealedAs, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { signingKey, type DkimAlgorithm, type SigningKey } from '../mail/dkim.ts'
import type { Db } from '../store/database.ts'
import { readSigningKeys, type SigningRow } from '../store/signing-keys.ts'

/** What a sending domain adds to its mail. */
export interface SendingDomain {
  /** The keys of mail that was accepted then, one of an algorithm at most. */
  readonly keysAt: (accepted: Date) => readonly SigningKey[]
  /** All of them can be used. */
  readonly isWhole: boolean
  /** Its own, where it is verified. */
  readonly returnPathHost: string | undefined
}

interface Named {
  readonly workspaceId: WorkspaceId
  readonly domainId: string
}

export function sendingDomains(db: Db, vault: Vault): (named: Named) => Promise<SendingDomain> {
  const opened = opener(vault)
  const domains = remembered((name) => loadDomain(db, opened, name), {
    keepMs: ({ isWhole }) => (isWhole ? limits.dkimKeysKeptMs : 0),
    most: limits.dkimDomainsMax,
  })
  return ({ workspaceId, domainId }) => domains(`${workspaceId} ${domainId}`)
}

/** Throws where it does not open, or is no key. */
type Opener = (workspaceId: WorkspaceId, domainId: string, row: SigningRow) => SigningKey

/** The same key for as long as the same is sealed; of as many as two for each domain that is remembered. */
function opener(vault: Vault): Opener {
  const known = new BoundedMap<string, { readonly sealed: Buffer; readonly key: SigningKey }>(2 * limits.dkimDomainsMax)
  return (workspaceId, domainId, { domain, selector, sealed }) => {
    const name = `${workspaceId} ${domainId} ${selector}`
    const last = known.get(name)
    const isSame = last !== undefined && last.sealed.equals(sealed)
    const privateKeyPem = () => vault.open(sealed, sealedAs.dkimKey(workspaceId, domain))
    const key = isSame ? last.key : signingKey({ domain, selector, privateKeyPem: privateKeyPem() })
    known.set(name, { sealed, key })
    return key
  }
}

/** A new key signs what is accepted so long after the switch: no node goes by what it read before it any more. */
const keyWaitsMs = 2 * limits.dkimKeysKeptMs

interface OpenedKey {
  readonly algorithm: DkimAlgorithm
  /** What it signs, by the time of acceptance. */
  readonly from: number
  readonly until: number
  readonly key?: SigningKey
  /** Why there is none. */
  readonly error?: unknown
}

async function loadDomain(db: Db, opened: Opener, name: string): Promise<SendingDomain> {
  const [workspaceId = '', domainId = ''] = name.split(' ')
  const rows = await readSigningKeys(db, workspaceId as WorkspaceId, domainId)
  const first = rows.find(({ algorithm }) => algorithm === 'rsa-sha256')
  if (first === undefined) throw new Error(`domain ${domainId} has no DKIM key`)
  const open = (row: SigningRow): OpenedKey => {
    const { algorithm, since, retiredAt } = row
    const from = since.getTime() + keyWaitsMs
    const until = retiredAt === null ? Infinity : retiredAt.getTime() + keyWaitsMs
    try {
      return { algorithm, from, until, key: opened(workspaceId as WorkspaceId, domainId, row) }
    } catch (error) {
      return { algorithm, from, until, error }
    }
  }
  const keys = rows.map(open)
  const required = keys.filter(({ algorithm }) => algorithm === 'rsa-sha256')
  const beside = keys.filter(({ algorithm }) => algorithm === 'ed25519-sha256')
  return {
    keysAt: (accepted) => {
      const at = accepted.getTime()
      // Where the key of its time is gone, the oldest one that is left.
      const own = required.findLast(({ from }) => from <= at) ?? required[0]
      if (own?.key === undefined) throw own?.error
      // Here none stands in for another: the mail is signed, and that of its first attempt may have had no second signature.
      const second = beside.findLast(({ from }) => from <= at)
      return second?.key === undefined || second.until <= at ? [own.key] : [own.key, second.key]
    },
    isWhole: keys.every(({ key }) => key !== undefined),
    returnPathHost: first.returnPathHost ?? undefined,
  }
}
