// Amazon SES event notifications (JSON; "Amazon SNS notification contents for SES" and event publishing): to each recipient what SES
// says of it. The feed of an SES relay brings them, and so does mail from SNS to an address that is subscribed to a topic.

export interface SesNotification {
  readonly kind: 'delivered' | 'bounce' | 'delay' | 'complaint'
  readonly messageId: string
  /** The envelope's sender. */
  readonly source?: string
  /** Of the mail as it was sent: name and value, where the identity is set to include headers. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly occurredAt?: Date
  readonly feedbackId?: string
  readonly feedbackType?: string
  readonly recipients: readonly SesRecipient[]
}

/** Where our signed token may stand: the header that we wrote, where the identity is set to include headers, and the envelope's sender. */
export function tokensIn({ headers, source }: Pick<SesNotification, 'headers' | 'source'>): string[] {
  const written = headers.find(([name]) => name.toLowerCase() === 'x-posthorn-token')?.[1].trim()
  return [written, source?.replace(/@[^@]*$/, '')].filter((each) => each !== undefined)
}

interface SesRecipient {
  readonly recipient: string
  readonly status?: string
  readonly diagnostic?: string
}

type Json = { readonly [member: string]: unknown }

/** Undefined where it is no such notification, or one about nothing that a receiving provider said (Send, Open, Click). */
export function readSesNotification(value: unknown): SesNotification | undefined {
  const root = objectOf(value)
  const mail = objectOf(root?.['mail'])
  const messageId = textOf(mail?.['messageId'])
  const type = textOf(root?.['notificationType']) ?? textOf(root?.['eventType'])
  if (root === undefined || mail === undefined || messageId === undefined || type === undefined) return undefined
  const source = textOf(mail['source'])
  const about = { messageId, headers: headersOf(mail['headers']), ...(source === undefined ? {} : { source }) }
  switch (type) {
    case 'Bounce':
      return bounceOf(about, objectOf(root['bounce']) ?? {})
    case 'Complaint':
      return complaintOf(about, objectOf(root['complaint']) ?? {})
    case 'Delivery':
      return deliveryOf(about, objectOf(root['delivery']) ?? {})
    case 'DeliveryDelay':
      return delayOf(about, objectOf(root['deliveryDelay']) ?? {})
    default:
      return undefined
  }
}

type About = Pick<SesNotification, 'messageId' | 'headers' | 'source'>

function bounceOf(about: About, bounce: Json): SesNotification {
  return {
    ...about,
    // `Transient` too is the end of the message: SES gives up before it notifies.
    kind: maybeAutomaticReply(bounce) ? 'delay' : 'bounce',
    ...when(bounce),
    ...recipientsOf(bounce['bouncedRecipients'], statusOfType(bounce)),
  }
}

/** SES tells automatic replies, such as "out of the office", as this; without a status and a reply nobody can say which it was. */
function maybeAutomaticReply(bounce: Json): boolean {
  if (bounce['bounceType'] !== 'Transient' || bounce['bounceSubType'] !== 'General') return false
  return arrayOf(bounce['bouncedRecipients']).every((each) => {
    const { status, diagnosticCode } = objectOf(each) ?? {}
    return status === undefined && diagnosticCode === undefined
  })
}

/** Where a recipient has no status of its own, SES's own word for it. */
function statusOfType(bounce: Json): SesFallback {
  const type = textOf(bounce['bounceType']) ?? ''
  const subtype = textOf(bounce['bounceSubType']) ?? ''
  const known = Object.hasOwn(statusOfSubtype, `${type} ${subtype}`) ? statusOfSubtype[`${type} ${subtype}`] : undefined
  const status = known ?? (type === 'Permanent' ? '5.0.0' : '4.0.0')
  return { status, diagnostic: `${type} ${subtype}`.trim() }
}

interface SesFallback {
  readonly status: string
  readonly diagnostic: string
}

/** In SES's own words, for the rule that knows them. */
const notSent: SesFallback = {
  status: '5.7.1',
  diagnostic:
    'Amazon SES did not send the message to this address because it is on the suppression list for your account',
}

const statusOfSubtype: Readonly<Record<string, string>> = {
  'Permanent NoEmail': '5.1.1',
  'Transient MailboxFull': '5.2.2',
  'Transient MessageTooLarge': '5.3.4',
  'Transient ContentRejected': '5.6.0',
  'Transient AttachmentRejected': '5.6.0',
}

function complaintOf(about: About, complaint: Json): SesNotification {
  // Nobody has complained about this mail: SES remembers an older complaint, and did not send.
  if (complaint['complaintSubType'] === 'OnAccountSuppressionList')
    return {
      ...about,
      kind: 'bounce',
      ...when(complaint),
      ...recipientsOf(complaint['complainedRecipients'], notSent),
    }
  const feedbackType = textOf(complaint['complaintFeedbackType'])
  return {
    ...about,
    kind: 'complaint',
    ...when(complaint),
    ...(feedbackType === undefined ? {} : { feedbackType: feedbackType.toLowerCase() }),
    ...recipientsOf(complaint['complainedRecipients']),
  }
}

function deliveryOf(about: About, delivery: Json): SesNotification {
  const diagnostic = textOf(delivery['smtpResponse'])
  const recipients = arrayOf(delivery['recipients']).flatMap((each) => {
    const recipient = textOf(each)
    return recipient === undefined ? [] : [{ recipient, ...(diagnostic === undefined ? {} : { diagnostic }) }]
  })
  return { ...about, kind: 'delivered', ...when(delivery), recipients }
}

function delayOf(about: About, delay: Json): SesNotification {
  return { ...about, kind: 'delay', ...when(delay), ...recipientsOf(delay['delayedRecipients']) }
}

function recipientsOf(list: unknown, fallback?: SesFallback): { readonly recipients: readonly SesRecipient[] } {
  return {
    recipients: arrayOf(list).flatMap((each) => {
      const given = objectOf(each)
      const recipient = textOf(given?.['emailAddress'])
      if (given === undefined || recipient === undefined) return []
      const status = textOf(given['status']) ?? fallback?.status
      const diagnostic =
        textOf(given['diagnosticCode'])?.replace(/^\s{0,4}smtp\s{0,4};\s{0,8}/i, '') ?? fallback?.diagnostic
      return [
        { recipient, ...(status === undefined ? {} : { status }), ...(diagnostic === undefined ? {} : { diagnostic }) },
      ]
    }),
  }
}

function when(about: Json): Pick<SesNotification, 'occurredAt' | 'feedbackId'> {
  const time = new Date(textOf(about['timestamp']) ?? '')
  const feedbackId = textOf(about['feedbackId'])
  return {
    ...(Number.isNaN(time.getTime()) ? {} : { occurredAt: time }),
    ...(feedbackId === undefined ? {} : { feedbackId }),
  }
}

function headersOf(list: unknown): [string, string][] {
  return arrayOf(list).flatMap((each): [string, string][] => {
    const name = textOf(objectOf(each)?.['name'])
    const value = textOf(objectOf(each)?.['value'])
    return name === undefined || value === undefined ? [] : [[name, value]]
  })
}

const textCharactersMax = 2_000
const elementsMax = 1_000

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, textCharactersMax) : undefined
}
function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, elementsMax) : []
}
function objectOf(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
}
