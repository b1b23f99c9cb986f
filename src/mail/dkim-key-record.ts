// What the TXT records at a DKIM selector say about our key (RFC 6376 3.6.1): whether receivers will find it, and if not, what is wrong
// with the record, in words for whoever edits the zone.
import { keyTypes, type DkimAlgorithm } from './dkim.ts'

/** `tag=value` pairs (RFC 6376 3.2); a tag that comes twice spoils the list. Undefined where the text is none. */
export function tagsOf(text: string): ReadonlyMap<string, string> | undefined {
  const tags = new Map<string, string>()
  for (const part of text.split(';')) {
    if (part.trim() === '') continue
    const at = part.indexOf('=')
    const name = part.slice(0, at).trim()
    if (at < 1 || tags.has(name)) return undefined
    tags.set(name, part.slice(at + 1).trim())
  }
  return tags
}

/** What else stands at our name may be a key that signs: of the same domain elsewhere, from when both could get the same name. */
const orAnother =
  'If another workspace or installation signs with the other key, leave the record and make a new key here (`posthorn domain rotate-dkim`, or "New DKIM key" on its page), which gets a name of its own'

/** Undefined: the record is right. */
export function whyNotDkim(
  texts: readonly string[],
  publicKey: string,
  algorithm: DkimAlgorithm = 'rsa-sha256',
): string | undefined {
  const records = texts.filter((text) => /\bp\s*=/.test(text))
  if (records.length === 0) return 'The TXT record here is no DKIM key: it has no "p=".'
  if (records.length > 1)
    return `Two DKIM keys stand at this name, and receivers may take either. ${orAnother}; if nobody does, remove the one that is not shown here.`
  // They may stand nowhere in it (RFC 6376 3.2), and some editors of zones take those of a zone file for part of the value.
  if ((records[0] as string).includes('"'))
    return 'The value has quotation marks in it, and receivers cannot read it: enter it without.'
  const tags = tagsOf(records[0] as string)
  if (tags === undefined) return 'The record cannot be read as "tag=value; tag=value".'
  const version = tags.get('v')
  if (version !== undefined && version !== 'DKIM1') return `The record begins with v=${version}; it must be v=DKIM1.`
  const found = (tags.get('p') ?? '').replace(/\s/g, '')
  if (found === '') return 'The key in the record is empty ("p="): that tells receivers that it was withdrawn.'
  if (found !== publicKey)
    return publicKey.startsWith(found)
      ? `The key is cut off after ${found.length} of ${publicKey.length} characters: long values are entered as several strings of at most 255.`
      : `The record has another key: an old one, or somebody else's. ${orAnother}; if nobody does, replace its whole value.`
  const [type, ours] = [tags.get('k'), keyTypes[algorithm]]
  if ((type ?? 'rsa') !== ours)
    return `The record says ${type === undefined ? 'no k=, which means rsa' : `k=${type}`}; the key is k=${ours}.`
  const hashes = tags.get('h')
  if (hashes !== undefined && !hashes.split(':').some((hash) => hash.trim() === 'sha256'))
    return 'The record allows other hashes than sha256 only ("h="): remove that tag.'
  const services = tags.get('s')
  if (services !== undefined && !services.split(':').some((service) => /^(?:\*|email)$/.test(service.trim())))
    return 'The record is for other services than mail only ("s="): remove that tag.'
  return undefined
}

/** A record that works, and says something that its owner may not mean, or that strict receivers do not take. */
export function dkimAdvice(texts: readonly string[]): string | undefined {
  if (texts.some((text) => [...(tagsOf(text)?.keys() ?? [])].indexOf('v') > 0))
    return 'The record has other tags before "v=", which must be the first (RFC 6376 3.6.1): strict receivers take such a key for none. Enter the value as it is shown.'
  const flags = texts.map((text) => tagsOf(text)?.get('t') ?? '').join(':')
  return flags.split(':').some((flag) => flag.trim() === 'y')
    ? 'The record says t=y, "we are only testing": receivers may ignore the signature. Remove it.'
    : undefined
}
