// One addr-spec (RFC 5321 4.1.2, RFC 6531), parsed strictly: no display name, no comments, no quoted local part, no literal.
// What comes out is one clean `local@domain` that can stand in RCPT TO and in a header field as it is (decisions D, "recipient").
import { domainToASCII, domainToUnicode } from 'node:url'
import { limits } from '../config.ts'

export interface EmailAddress {
  /** `local@domain` as it is kept and sent: the local part as given, the domain lower case in A-labels. */
  readonly text: string
  readonly local: string
  /** Lower case, A-labels. */
  readonly domain: string
  /** What suppressions are compared by: `text` in lower case and composed (NFC, RFC 6532 3.1). No folding of `+tag` or dots (decisions D). */
  readonly key: string
  /** True when the local part has non-ASCII characters, so that the next hop must offer SMTPUTF8. */
  readonly needsSmtputf8: boolean
}

const atext = "A-Za-z0-9!#$%&'*+/=?^_`{|}~-"
const dotAtom = new RegExp(`^[${atext}]+(?:\\.[${atext}]+)*$`)
const dotAtomUtf8 = new RegExp(`^[\\u{80}-\\u{10ffff}${atext}]+(?:\\.[\\u{80}-\\u{10ffff}${atext}]+)*$`, 'u')

/** At least two LDH labels of 1 to 63. The last begins with a letter: an all-numeric or hexadecimal one reads as an IP address. */
const hostName = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/** A country's top-level domain: the only ones that may have mailboxes themselves (`ada@ai`; ICANN forbids it to all others). */
const countryName = /^[a-z]{2}$/
const hostCharacters = /^[A-Za-z0-9.\u{80}-\u{10ffff}-]+$/u
const ascii = /^[\x21-\x7e]*$/
/** Controls, bidirectional and other format characters, lone surrogates, private and unassigned code points, all white space. */
const invisible = /[\p{C}\p{Z}]/u

/** It may stand in no address (RFC 2047 5 (3)); there are readers that decode it all the same, and find others. */
const encodedWord = /=\?[^?]*\?[bq]\?[^?]*\?=/i

/** The address in the form that we keep, or undefined where the text is not exactly one address that we accept. */
export function parseAddress(text: string): EmailAddress | undefined {
  if (text.length > limits.addressOctetsMax) return undefined
  const at = text.lastIndexOf('@')
  if (at < 1) return undefined
  const local = text.slice(0, at)
  const needsSmtputf8 = !ascii.test(local)
  if (needsSmtputf8 ? !isUtf8Local(local) : local.length > limits.localPartOctetsMax || !dotAtom.test(local))
    return undefined
  if (local.includes('=?') && encodedWord.test(local)) return undefined
  const domain = parseDomain(text.slice(at + 1)) ?? countryDomain(text.slice(at + 1))
  if (domain === undefined) return undefined
  const clean = `${local}@${domain}`
  if ((needsSmtputf8 ? Buffer.byteLength(clean) : clean.length) > limits.addressOctetsMax) return undefined
  const lower = clean.toLowerCase()
  return { text: clean, local, domain, key: needsSmtputf8 ? lower.normalize('NFC') : lower, needsSmtputf8 }
}

/** What is wrong with an address that is too long, or of a form that RFC 5321 knows and we do not take; undefined where it is something else. */
export function unsupportedForm(text: string): string | undefined {
  const at = text.lastIndexOf('@')
  // No form is longer; and an expression that goes back cannot read a text of megabytes.
  if (Buffer.byteLength(text) > limits.addressOctetsMax)
    return at > 0 ? `has more than ${limits.addressOctetsMax} octets, which no mail server takes` : undefined
  const domain = text.slice(at + 1)
  if (/^"(?:[^"\\]|\\.)*"$/.test(text.slice(0, at)))
    return 'has a quoted local part, which is not supported; use an address without quotes'
  if (at > 0 && /^\[[^\]]*\]$/.test(domain))
    return 'has an IP address in place of its domain, which is not supported; use a domain name'
  if (at > 0 && /^[A-Za-z0-9-]+$/.test(domain))
    return 'has a domain without a dot, which is not supported; use its full name'
  if (at > 0 && Buffer.byteLength(text.slice(0, at)) > limits.localPartOctetsMax)
    return `has more than ${limits.localPartOctetsMax} octets before its "@", which no mail server need take`
  return undefined
}

function isUtf8Local(local: string): boolean {
  if (Buffer.byteLength(local) > limits.localPartOctetsMax) return false
  if (invisible.test(local) || !dotAtomUtf8.test(local)) return false
  // The Kelvin sign is a K, and canonically the whole is an ASCII address, which has a spelling already: what became of this one must not be told of that.
  if (ascii.test(local.normalize('NFC'))) return false
  // Some servers fold compatibility characters: what becomes `@`, `<`, `,` or an empty atom there must not leave us.
  return dotAtomUtf8.test(local.normalize('NFKC'))
}

function countryDomain(text: string): string | undefined {
  const domain = text.toLowerCase()
  return countryName.test(domain) ? domain : undefined
}

/** Lower case, A-labels; undefined where it is not a host name below a top-level domain. */
export function parseDomain(text: string): string | undefined {
  if (text.length > limits.addressOctetsMax) return undefined
  const domain = ascii.test(text) ? text.toLowerCase() : toALabels(text)
  if (!hostName.test(domain)) return undefined
  return domain.includes('xn--') && !hasValidALabels(domain) ? undefined : domain
}

/** Empty where it cannot be done. */
function toALabels(text: string): string {
  // `domainToASCII` reads its argument as a URL host: percent signs, ports and slashes must not reach it.
  return invisible.test(text) || !hostCharacters.test(text) ? '' : domainToASCII(text)
}

/** Node passes broken Punycode through untouched, so each A-label must decode, and encode to itself again (RFC 5891 5.4). */
function hasValidALabels(domain: string): boolean {
  return domain.split('.').every((label) => {
    if (!label.startsWith('xn--')) return true
    const unicode = domainToUnicode(label)
    return !ascii.test(unicode) && !/^-|-$/.test(unicode) && domainToASCII(unicode) === label
  })
}
