// Delivery status notifications (RFC 3464; RFC 6533 for international addresses): the fields of message/delivery-status, as mail
// systems write them. Facts only; what they mean is said in domain/bounce-rules.ts. Lenient: fields in any order, blocks without the
// blank line between them, comments behind values, quoted by `> ` because somebody forwarded it.
import { limits } from '../config.ts'

export interface DeliveryStatus {
  /** Fields of the report as a whole, by lower-case name. */
  readonly message: ReadonlyMap<string, string>
  readonly recipients: readonly RecipientStatus[]
}

export interface RecipientStatus {
  readonly recipient?: string
  readonly action: RecipientAction
  /** `5.1.1`, without its comment. */
  readonly status?: string
  /** What the remote side said, without the type before it. */
  readonly diagnostic?: string
  /** True where the diagnostic is of type `smtp`. */
  readonly smtp: boolean
  readonly remoteMta?: string
  /** The address that failed was made of the recipient's by an alias or a list (sendmail's X-Actual-Recipient). */
  readonly another?: true
  /** The report, or as much of it as is read, ends inside this block: what is missing might have said the opposite. */
  readonly cut?: true
}

/** RFC 3464 2.3.3. */
export type RecipientAction = 'delivered' | 'relayed' | 'expanded' | 'delayed' | 'failed'

type Fields = Map<string, string>

/** Names that only a recipient's block has (RFC 3464 2.3). */
const ofRecipient = new Set([
  'final-recipient',
  'original-recipient',
  'action',
  'status',
  'remote-mta',
  'diagnostic-code',
  'last-attempt-date',
  'final-log-id',
  'will-retry-until',
])
const namesRecipient = ['final-recipient', 'original-recipient', 'x-actual-recipient']
const fieldLine = /^([A-Za-z][A-Za-z0-9-]{1,40})[ \t]{0,4}:[ \t]{0,40}/

/** Reads the text of the part; gives nothing where it has no recipient's block. `open`: it may have gone on behind this text. */
export function readDeliveryStatus(text: string, open: boolean): DeliveryStatus | undefined {
  const message: Fields = new Map()
  const blocks: Fields[] = []
  let block: Fields | undefined
  let name: string | undefined
  const lines = linesOf(text)
  // What stands behind the last line end is no line.
  if (lines.at(-1) === '') lines.pop()
  const isLong = lines.length > limits.reportLinesMax
  for (const line of lines.slice(0, limits.reportLinesMax)) {
    const bare = line.replace(/^(?:> ?){1,3}/, '')
    if (bare.trim() === '') {
      block = undefined
      name = undefined
      continue
    }
    if (/^[ \t]/.test(bare)) {
      if (name !== undefined) unfold(block ?? message, name, bare.trim())
      continue
    }
    const match = fieldLine.exec(bare)
    // The returned message begins: whatever its header says is not the report's.
    if (/^(?:return-path|received|dkim-signature)$/i.test(match?.[1] ?? '')) {
      block = undefined
      break
    }
    name = match?.[1]?.toLowerCase()
    if (match === null || name === undefined) continue
    const value = bare.slice(match[0].length).trim()
    if (ofRecipient.has(name) && (block === undefined || startsAnother(block, name))) {
      block = continued(blocks, block, name)
      if (!blocks.includes(block)) blocks.push(block)
      if (blocks.length > limits.reportRecipientsMax) break
    }
    const fields = block ?? message
    // A second field of the name is dropped, and its folds with it.
    if (fields.has(name)) name = undefined
    else fields.set(name, value)
  }
  const cut = open || isLong ? block : undefined
  const reporter = withoutType(message.get('reporting-mta'))
  const recipients = blocks.map((each) => statusOf(each, each === cut, reporter)).filter((each) => each !== undefined)
  return recipients.length === 0 ? undefined : { message, recipients }
}

/** Lines without their ends, whichever they are. */
export function linesOf(text: string): string[] {
  return text.split(/\r\n|\r|\n/)
}

function unfold(fields: Fields, name: string, text: string): void {
  fields.set(name, `${fields.get(name) ?? ''} ${text}`.slice(0, limits.reportTextCharactersMax))
}

/** The blank line between two recipients is missing. */
function startsAnother(block: Fields, name: string): boolean {
  return (name === 'final-recipient' || name === 'action') && block.has(name)
}

/** A block that only goes on with what the last one began (some systems write blank lines between fields). */
function continued(blocks: readonly Fields[], open: Fields | undefined, name: string): Fields {
  const last = blocks.at(-1)
  const goesOn = open === undefined && last !== undefined && !last.has(name) && !namesRecipient.includes(name)
  return goesOn && !(last.has('action') && last.has('status')) ? last : new Map<string, string>()
}

function statusOf(fields: Fields, cut: boolean, reporter: string | undefined): RecipientStatus | undefined {
  const status = /\b([245]\.\d{1,3}\.\d{1,3})\b/.exec(fields.get('status') ?? '')?.[1]
  const action = actionOf(fields.get('action'), status)
  if (action === undefined) return undefined
  const recipient = namesRecipient.map((name) => addressOf(fields.get(name))).find((each) => each !== undefined)
  const [, type, said] =
    /^\s{0,4}([A-Za-z0-9-]{1,20})\s{0,4};\s{0,8}([^]*)$/.exec(fields.get('diagnostic-code') ?? '') ?? []
  const diagnostic = (said ?? fields.get('diagnostic-code'))?.slice(0, limits.reportTextCharactersMax)
  const remoteMta = withoutType(fields.get('remote-mta'))
  return {
    action,
    smtp: type?.toLowerCase() === 'smtp',
    ...(cut ? { cut } : {}),
    ...(isAnother(addressOf(fields.get('x-actual-recipient')), recipient, reporter) ? { another: true } : {}),
    ...(recipient === undefined ? {} : { recipient }),
    ...(status === undefined ? {} : { status }),
    ...(diagnostic === undefined || diagnostic === '' ? {} : { diagnostic }),
    ...(remoteMta === undefined || remoteMta === '' ? {} : { remoteMta: remoteMta.slice(0, 255) }),
  }
}

/** `dns; mx.example.org` */
const withoutType = (text: string | undefined): string | undefined =>
  text?.replace(/^\s{0,4}[A-Za-z0-9-]{1,20}\s{0,4};\s{0,8}/, '')

/** A mailbox at the reporting host itself has its name behind the `@`; the program of a mailbox has none. */
function isAnother(actual: string | undefined, recipient = '', reporter = ''): boolean {
  const at = actual?.lastIndexOf('@') ?? -1
  if (actual === undefined || at < 1 || actual.toLowerCase() === recipient.toLowerCase()) return false
  const own = `${recipient.slice(0, recipient.lastIndexOf('@'))}@${reporter}`
  return actual.toLowerCase() !== own.toLowerCase()
}

const actions: readonly [beginning: string, action: RecipientAction][] = [
  ['fail', 'failed'],
  ['undeliver', 'failed'],
  ['delay', 'delayed'],
  ['deliver', 'delivered'],
  ['relay', 'relayed'],
  ['expand', 'expanded'],
]

/** Some write `Failed`, `failed (permanent)` or `failure`; where it is missing, the class of the status says it. */
function actionOf(text: string | undefined, status: string | undefined): RecipientAction | undefined {
  const word = (text ?? '').trim().toLowerCase()
  const known = actions.find(([beginning]) => word.startsWith(beginning))?.[1]
  if (known !== undefined) return known
  if (status === undefined) return undefined
  return status.startsWith('2') ? 'delivered' : status.startsWith('4') ? 'delayed' : 'failed'
}

/** `rfc822; <a@b>`, `utf-8; gr\x{FC}n@b` (RFC 6533 3), or the address alone. */
function addressOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const [, type, rest] = /^\s{0,4}([A-Za-z0-9-]{1,20})\s{0,4};\s{0,8}([^]*)$/.exec(text) ?? [text, undefined, text]
  const plain = type?.toLowerCase() === 'utf-8' ? unescapedUnicode(rest ?? '') : (rest ?? '')
  const address = /<([^<>\s]{1,512})>/.exec(plain)?.[1] ?? plain.trim().split(/\s/, 1)[0] ?? ''
  return address === '' || address.length > 512 ? undefined : address
}

function unescapedUnicode(text: string): string {
  return text.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (whole, hex: string) => {
    const point = Number.parseInt(hex, 16)
    return point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff) ? String.fromCodePoint(point) : whole
  })
}
