// The DNS records that a domain asks for, and what was seen in their place: one list, whether it is shown, checked, or copied into a zone.
// Ownership and DKIM decide whether the domain sends; the return path and DMARC make it better (docs/decisions/0039).
import { isFullName } from '../base/full-name.ts'
import { limits } from '../config.ts'
import { dkimRecord } from '../mail/dkim.ts'
import { returnPathName } from '../mail/return-path.ts'
import type { DkimKeyRow, DomainRow } from '../store/domains.ts'

/** `dkim_ed25519`: of a key beside the RSA one, which nothing depends on (docs/decisions/0079). */
export type RecordPurpose = 'ownership' | 'dkim' | 'dkim_ed25519' | 'return_path' | 'dmarc'

export interface DnsRecord {
  readonly purpose: RecordPurpose
  readonly type: 'TXT' | 'CNAME' | 'MX'
  readonly name: string
  readonly value: string
  /**
   * `pending`: not seen yet; `wrong`: something else stands there; `advised`: worth having, but nothing waits for it; `retiring`: of a
   * key that signs only what was accepted before the switch, to be removed after the time in its finding.
   */
  readonly status: RecordStatus
  /** What stands there, where it is not what is asked for. */
  readonly found?: readonly string[]
  /** What that means and what to do, in a sentence. */
  readonly finding?: string
  /** It is not to be set yet: its value is nothing to publish before this. */
  readonly waitsFor?: 'hostname'
}
export type RecordStatus = 'pending' | 'verified' | 'wrong' | 'advised' | 'retiring'

/** What a check saw of one record. */
export interface Sight {
  readonly status: 'verified' | 'pending' | 'wrong' | 'advised'
  readonly found?: readonly string[]
  readonly finding?: string
}

/** What a check saw, by the `sightName` of each record. */
export interface Found {
  readonly sights: Readonly<Record<string, Sight>>
  /** About what is not asked for, and worth knowing: SPF of the domain itself. */
  readonly advice: readonly string[]
  /** How the return path is set: the records that are shown for it. */
  readonly returnPath: 'CNAME' | 'MX'
}

export const sightName = ({ type, name }: Pick<DnsRecord, 'type' | 'name'>): string => `${type} ${name}`
export const ownershipName = (domain: string): string => `_posthorn.${domain}`
export const ownershipValue = (token: string): string => `posthorn-verify=${token}`
export const dkimName = (selector: string, domain: string): string => `${selector}._domainkey.${domain}`
export const dmarcName = (domain: string): string => `_dmarc.${domain}`

/** SPF of the return path where it has an MX of its own. */
export const returnPathSpf = (hostname: string): string => `v=spf1 a:${hostname} -all`

type Wanted = Omit<DnsRecord, 'status'>

export function recordsOf(row: DomainRow, hostname: string): readonly DnsRecord[] {
  const { name } = row
  const found = row.found as Found | null
  const bounces = returnPathName(name)
  const returnPath: readonly Wanted[] =
    found?.returnPath === 'MX'
      ? [
          { purpose: 'return_path', type: 'MX', name: bounces, value: `10 ${hostname}` },
          { purpose: 'return_path', type: 'TXT', name: bounces, value: returnPathSpf(hostname) },
        ]
      : [{ purpose: 'return_path', type: 'CNAME', name: bounces, value: hostname }]
  const seen = (wanted: Wanted): DnsRecord => ({
    ...wanted,
    ...(found?.sights[sightName(wanted)] ?? { status: 'pending' }),
  })
  const dmarc = { purpose: 'dmarc', type: 'TXT', name: dmarcName(name), value: 'v=DMARC1; p=none' } as const
  return [
    seen({ purpose: 'ownership', type: 'TXT', name: ownershipName(name), value: ownershipValue(row.ownershipToken) }),
    ...row.keys.map((key) => keyRecord(key, row, seen)),
    ...returnPath.map((wanted) => named(seen(wanted), hostname)),
    { ...dmarc, status: 'advised', ...found?.sights[sightName(dmarc)] },
  ]
}

/** The return path's record names the installation: published with a name that nobody else can find, bounces would come back to nobody. */
function named(record: DnsRecord, hostname: string): DnsRecord {
  if (isFullName(hostname)) return record
  const finding = `The operator of this installation must first set its full name, such as mail.example.org (the setting \`POSTHORN_HOSTNAME\`): the record would name "${hostname}", which nobody else can find.`
  return { ...record, waitsFor: 'hostname', finding }
}

function keyRecord(key: DkimKeyRow, { name, keys }: DomainRow, seen: (wanted: Wanted) => DnsRecord): DnsRecord {
  const isBeside = key.algorithm === 'ed25519-sha256'
  const wanted: Wanted = {
    purpose: isBeside ? 'dkim_ed25519' : 'dkim',
    type: 'TXT',
    name: dkimName(key.selector, name),
    value: dkimRecord(key.publicKey, key.algorithm),
  }
  if (key.state !== 'retired' || key.retiredAt === null) {
    const record = seen(wanted)
    if (!isBeside || keys.some(({ algorithm, state }) => algorithm === key.algorithm && state === 'active'))
      return record
    const finding = [record.finding, 'Until a check has seen it, mail is signed with RSA alone.']
    return { ...record, finding: finding.filter((words) => words !== undefined).join(' ') }
  }
  const until = new Date(Date.parse(key.retiredAt) + limits.dkimRetiredMs).toISOString().slice(0, 10)
  return {
    ...wanted,
    status: 'retiring',
    finding: `This key signs only what was accepted before ${isBeside ? 'it was replaced or ended' : 'the switch'}. Leave the record until ${until}, for mail that is under way; then remove it.`,
  }
}

/** The records as lines of a zone file. */
export function zoneFile(records: readonly Pick<DnsRecord, 'type' | 'name' | 'value'>[]): string {
  return records
    .map(({ type, name, value }) => {
      if (type === 'CNAME') return `${name}. 3600 IN CNAME ${value}.`
      if (type === 'MX') return `${name}. 3600 IN MX ${value}.`
      const strings = value.match(/.{1,255}/g) ?? ['']
      return `${name}. 3600 IN TXT ${strings.map((each) => `"${each.replaceAll(/(["\\])/g, '\\$1')}"`).join(' ')}`
    })
    .join('\n')
}
