// DANE for SMTP (RFC 7672): which certificate a mail host must show, as its signed TLSA records say. Usage 3 names the host's own key, and
// neither names nor dates matter (3.1.1); usage 2 names an authority, and then both do (3.1.2); usages 0 and 1 mean nothing to us (3.1.3).
// Where no record is usable, the channel must be encrypted all the same, with any certificate.
import { createHash, timingSafeEqual, X509Certificate } from 'node:crypto'
import type packet from 'dns-packet'

export interface Tlsa {
  readonly usage: 2 | 3
  /** 0: the whole certificate, 1: its public key. */
  readonly selector: 0 | 1
  /** 0: as it is, 1: SHA-256, 2: SHA-512. */
  readonly matching: 0 | 1 | 2
  readonly data: Buffer
}

export interface DaneRule {
  /** Usable ones; none: any certificate will do. */
  readonly records: readonly Tlsa[]
  /** The TLSA base domain: what the server is asked for (SNI). */
  readonly base: string
  /** The names of which one must stand in the certificate that an authority signed. */
  readonly names: readonly string[]
}

const recordsMost = 20

export function usableTlsa(records: readonly packet.Answer[]): Tlsa[] {
  return records
    .flatMap((record): Tlsa[] => {
      if (record.type !== 'TLSA') return []
      const { usage, selector, matchingType: matching, certificate: data } = record.data
      if ((usage !== 2 && usage !== 3) || (selector !== 0 && selector !== 1)) return []
      if (matching !== 0 && matching !== 1 && matching !== 2) return []
      if (data.length === 0 || (matching === 1 && data.length !== 32) || (matching === 2 && data.length !== 64))
        return []
      return [{ usage, selector, matching, data }]
    })
    .slice(0, recordsMost)
}

/** Does what the server showed satisfy the rule? Its own certificate first, then those that it sent beside it. */
export function satisfiesDane(rule: DaneRule, shown: readonly Buffer[], now = new Date()): boolean {
  if (rule.records.length === 0) return true
  const [own, ...sent] = shown.slice(0, chainMost)
  // Its key is the one that the handshake has proved: no other stands in for it.
  const leaf = own && readCertificate(own)
  if (leaf === undefined) return false
  const above = sent.flatMap((raw) => readCertificate(raw) ?? [])
  return rule.records.some((record) => {
    try {
      if (record.usage === 3) return matches(record, leaf)
      const named = rule.names.some((name) => leaf.checkHost(name, { subject: 'never' }) !== undefined)
      return named && isInDate(leaf, now) && leadsTo(record, leaf, above, now)
    } catch {
      return false // strangers' keys and names: there are kinds that OpenSSL does not read
    }
  })
}

function matches({ selector, matching, data }: Tlsa, certificate: X509Certificate): boolean {
  const whole = selector === 0 ? certificate.raw : spki(certificate)
  const seen =
    matching === 0
      ? whole
      : createHash(matching === 1 ? 'sha256' : 'sha512')
          .update(whole)
          .digest()
  return seen.length === data.length && timingSafeEqual(seen, data)
}

const spki = (certificate: X509Certificate): Buffer => certificate.publicKey.export({ type: 'spki', format: 'der' })

const chainMost = 10

/** Walks from the host's certificate up, each one signed by the next, until one is the named authority (or is signed by it). */
function leadsTo(record: Tlsa, leaf: X509Certificate, above: readonly X509Certificate[], now: Date): boolean {
  const { selector, matching, data } = record
  // The record may hold the authority itself, so that the server need not send it (3.1.2).
  const authority = selector === 0 && matching === 0 ? readCertificate(data) : undefined
  let at = leaf
  for (let depth = 0; depth < chainMost; depth++) {
    // The host's own certificate may be named as its own authority; anything above it must be one.
    if (matches(record, at)) return true
    if (authority !== undefined && isSignedBy(at, authority)) return true
    const from = at
    const issuer = above.find((each) => !each.raw.equals(from.raw) && isInDate(each, now) && isSignedBy(from, each))
    if (issuer === undefined) return false
    at = issuer
  }
  return false
}

function readCertificate(raw: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(raw)
  } catch {
    return undefined
  }
}

const isSignedBy = (certificate: X509Certificate, authority: X509Certificate): boolean =>
  authority.ca && certificate.checkIssued(authority) && certificate.verify(authority.publicKey)

const isInDate = ({ validFromDate, validToDate }: X509Certificate, now: Date): boolean =>
  validFromDate <= now && now <= validToDate
