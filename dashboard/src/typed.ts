// What somebody means who types or pastes something into the field of a search, or into the page's address: an id, an address, words, metadata.

export const isId = (value: string): boolean => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value)

type Wanted = { readonly messageId: string } | { readonly recipient: string } | { readonly text: string }

/** The Message-ID of a mail that we have written: ids of ours count time (version 7), those of other programs mostly do not. */
const ownMessageId = /^([\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12})@[^\s@]+$/i

const atom = "[\\u{80}-\\u{10ffff}A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const local = new RegExp(`^${atom}(?:\\.${atom})*$`, 'u')
const host = /^(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z](?:[a-z\d-]{0,61}[a-z\d])?$/
/** One that is whole, as the service takes it and keeps it (src/mail/address.ts); of another one it would say that it is none. */
export function addressIn(text: string): string | undefined {
  const at = text.lastIndexOf('@')
  const name = text.slice(0, Math.max(0, at))
  const octets = (part: string) => new TextEncoder().encode(part).length
  if (/[\p{C}\p{Z}]/u.test(text) || octets(name) > 64 || !local.test(name) || !local.test(name.normalize('NFKC')))
    return undefined
  const typed = text.slice(at + 1)
  if (!/^[A-Za-z\d.\u{80}-\u{10ffff}-]+$/u.test(typed) || !URL.canParse(`http://${typed}`)) return undefined
  const domain = new URL(`http://${typed}`).hostname
  const address = `${name}@${domain}`
  return host.test(domain) && octets(address) <= 254 ? address : undefined
}

/** What somebody means who types or pastes this: an id, as it stands in answers, events and logs, or in a mail; an address, also with its name, or as a link or a list of addresses has it; words. */
export function wantedIn(typed: string): Wanted {
  const text = typed.trim()
  const inner = /^[^<>]*<([^<>]+)>$/.exec(text)?.[1]?.trim() ?? text
  if (isId(inner)) return { messageId: inner }
  const own = ownMessageId.exec(inner)?.[1]
  if (own !== undefined) return { messageId: own }
  // A whole address is found along an index, however long ago it was; a part of one is among the words.
  const address = inner.replace(/^mailto:/i, '').replace(/[,;]+$/, '')
  return addressIn(address) === undefined ? { text } : { recipient: address }
}

/** Of a search by what an address begins with: also of one that is pasted with its name, as a link or out of a list. */
export function beginningIn(typed: string): string {
  const wanted = wantedIn(typed)
  return 'recipient' in wanted ? wanted.recipient : typed.trim()
}

interface Metadata {
  readonly metadataName?: string
  readonly metadataValue: string
}
/** Counted as the service does: an emoji is one. */
const charactersOf = (text: string): number => Array.from(text).length

/** What stands before the first `=` is the name. As long as the service takes them; undefined where nothing can be so. */
export function metadataIn(typed: string): Metadata | undefined {
  const [, name = '', value = ''] = /^(?:([^=]*)=)?(.*)$/s.exec(typed.trim()) ?? []
  const metadataName = name.trim()
  const metadataValue = value.trim()
  if (metadataValue === '' || charactersOf(metadataValue) > 500 || charactersOf(metadataName) > 40) return undefined
  return { metadataValue, ...(metadataName !== '' && { metadataName }) }
}
