// What a list is narrowed to, as the page's address says it, or the field of a search: somebody may have typed it. It stands in the address so that a
// reload, the way back and a link that somebody is given show the same.

export interface MessageFilter {
  readonly status?: string
  readonly deliveryStatus?: string
  readonly text?: string
  readonly recipient?: string
  readonly mailboxId?: string
  /** `name=value`, or a value under any name. */
  readonly metadata?: string
  /** Days as the browser counts them, both included; or instants, the second not included. */
  readonly from?: string
  readonly to?: string
}

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

/** What somebody means who types or pastes this: an id, as it stands in answers, events and logs, or in a mail; an address, also with its name; words. */
export function wantedIn(typed: string): Wanted {
  const text = typed.trim()
  const inner = /^[^<>]*<([^<>]+)>$/.exec(text)?.[1]?.trim() ?? text
  if (isId(inner)) return { messageId: inner }
  const own = ownMessageId.exec(inner)?.[1]
  if (own !== undefined) return { messageId: own }
  // A whole address is found along an index, however long ago it was; a part of one is among the words.
  return addressIn(inner) === undefined ? { text } : { recipient: inner }
}
const isText = (value: string): boolean => value !== ''
const isAddress = (value: string): boolean => addressIn(value) !== undefined

interface Metadata {
  readonly metadataName?: string
  readonly metadataValue: string
}
/** What stands before the first `=` is the name. As long as the service takes them; undefined where nothing can be so. */
export function metadataIn(typed: string): Metadata | undefined {
  const [, name = '', value = ''] = /^(?:([^=]*)=)?(.*)$/s.exec(typed.trim()) ?? []
  const metadataName = name.trim()
  const metadataValue = value.trim()
  if (metadataValue === '' || metadataValue.length > 500 || metadataName.length > 40) return undefined
  return { metadataValue, ...(metadataName !== '' && { metadataName }) }
}
/** One on which there may have been a message: no year that is still being typed. */
export const isDay = (value: string): boolean =>
  /^(?:19[7-9]|2\d\d)\d-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value))
/** As the service tells them: what a chart counts begins between two days of the browser. */
export const isInstant = (value: string): boolean =>
  /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && isDay(value.slice(0, 10)) && !Number.isNaN(Date.parse(value))
const isTime = (value: string): boolean => isDay(value) || isInstant(value)
const members = {
  status: isText,
  deliveryStatus: isText,
  text: isText,
  recipient: isAddress,
  mailboxId: isId,
  metadata: (value) => metadataIn(value) !== undefined,
  from: isTime,
  to: isTime,
} as const satisfies Record<keyof MessageFilter, (value: string) => boolean>

/** What of it means something; the rest is as if it were not there. */
export const readFilter = (search: Readonly<Record<string, unknown>>): MessageFilter => readMembers(members, search)

/** Which mails of the sandbox are looked for. */
export interface SandboxFilter {
  readonly text?: string
  readonly recipient?: string
  readonly messageId?: string
}
const sandboxMembers = { text: isText, recipient: isText, messageId: isId } as const satisfies Record<
  keyof SandboxFilter,
  (value: string) => boolean
>
export const readSandboxFilter = (search: Readonly<Record<string, unknown>>): SandboxFilter =>
  readMembers(sandboxMembers, search)

/** What was refused; days as the browser counts them, both included. */
export interface RefusedFilter {
  readonly code?: string
  readonly source?: string
  readonly from?: string
  readonly to?: string
}
const refusedMembers = { code: isText, source: isText, from: isDay, to: isDay } as const satisfies Record<
  keyof RefusedFilter,
  (value: string) => boolean
>
export const readRefusedFilter = (search: Readonly<Record<string, unknown>>): RefusedFilter =>
  readMembers(refusedMembers, search)

export interface SuppressionFilter {
  readonly prefix?: string
  readonly reason?: string
}
const suppressionMembers = { prefix: isText, reason: isText } as const satisfies Record<
  keyof SuppressionFilter,
  (value: string) => boolean
>
export const readSuppressionFilter = (search: Readonly<Record<string, unknown>>): SuppressionFilter =>
  readMembers(suppressionMembers, search)

/** Which events of the webhook's log. */
export interface WebhookFilter {
  readonly state?: string
  readonly type?: string
  readonly messageId?: string
}
const webhookMembers = { state: isText, type: isText, messageId: isId } as const satisfies Record<
  keyof WebhookFilter,
  (value: string) => boolean
>
export const readWebhookFilter = (search: Readonly<Record<string, unknown>>): WebhookFilter =>
  readMembers(webhookMembers, search)

/** Of operators: which workspaces. */
export interface WorkspaceFilter {
  readonly text?: string
}
export const readWorkspaceFilter = (search: Readonly<Record<string, unknown>>): WorkspaceFilter =>
  readMembers({ text: isText }, search)

/** `?text=4711` comes as a number. */
export const worded = (value: unknown) =>
  typeof value === 'number' || typeof value === 'boolean' ? String(value) : value

function readMembers(
  wanted: Readonly<Record<string, (value: string) => boolean>>,
  search: Readonly<Record<string, unknown>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([name, isRight]): [string, string][] => {
      const value = worded(search[name])
      return typeof value === 'string' && isRight(value) ? [[name, value]] : []
    }),
  )
}

/** A filter with some of it changed; what is empty is no part of it. */
export const narrowed = <Filter extends object>(filter: Filter, changes: Filter): Filter =>
  Object.fromEntries(
    Object.entries({ ...filter, ...changes }).filter(([, value]) => value !== undefined && value !== ''),
  ) as Filter

/** The browser's own midnight: dates without a time are read so. */
export function midnight(day: string, daysLater: number): string {
  const at = new Date(`${day}T00:00:00`)
  at.setDate(at.getDate() + daysLater)
  return at.toISOString()
}
