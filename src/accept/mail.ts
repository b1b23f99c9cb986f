// The way in for a mail that is sent as it was submitted, one message per recipient: all of them are admitted in one transaction, or none
// (decisions F). Accepted is said only after everything is committed, and nothing is admitted after the time when its caller stops waiting.
import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { limits } from '../config.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import type { MessageId } from '../domain/message.ts'
import type { AcceptedMail, MailIdempotency, MailSubmission, MessageRecord } from '../domain/submission.ts'
import { textOfMail } from '../mail/mail-text.ts'
import { AdmissionTooLate, type Admission, type AdmissionRow } from '../store/admit.ts'
import { timeOfId } from '../store/message-id.ts'
import type { AcceptTools } from './accept.ts'
import { judge, roundsMax, tooSlow } from './checks.ts'
import { equalKeysInTurn } from './equal-keys.ts'
import { isKept, orFound } from './kept.ts'
import { whyNoRecipient } from './recipient.ts'
import type { ScanRecord } from './scan.ts'
import { scanned } from './scanned.ts'

export type AcceptMail = (submission: MailSubmission) => Promise<AcceptedMail | Refusal>

export function makeAcceptMail(tools: AcceptTools): AcceptMail {
  const inTurn = equalKeysInTurn<AcceptedMail>()
  return (mail) =>
    keysOf(mail)
      .toSorted() // so that no two wait for each other
      .reduceRight<() => ReturnType<AcceptMail>>(
        (then, key) => () =>
          inTurn(`${mail.workspaceId} ${mail.idempotency?.kind} ${key}`, then, () => leftBy(tools, mail)),
        () => decide(tools, mail),
      )()
}

/**
 * Of a repeat each recipient has a key: who comes again without an answer may come with fewer (one has bounced, and is suppressed by now) or
 * in another order.
 */
function keysOf({ idempotency, recipients }: MailSubmission): readonly string[] {
  if (idempotency === undefined) return []
  const { kind, key } = idempotency
  return kind === 'repeat' ? recipients.map(({ text }) => hash('sha256', `${key}\n${text}`)) : [key]
}

const expired = refuse('invalid_request', 'X-Posthorn-Expires-At must be in the future.')

async function decide(tools: AcceptTools, mail: MailSubmission): Promise<AcceptedMail | Refusal> {
  for (const recipient of mail.recipients) {
    const objection = whyNoRecipient(recipient)
    if (objection !== undefined) return objection
  }
  await tools.ids.sure()
  const ids = mail.recipients.map(() => tools.ids.next())
  const rows = rowsOf(tools, mail, ids)
  const hasExpired = mail.expiresAt !== undefined && mail.expiresAt.getTime() <= tools.ids.now()
  if (hasExpired && mail.idempotency === undefined) return expired
  const wantsText = !standsInRecord(mail, ids)
  let record: ScanRecord | undefined
  let text: string | undefined
  try {
    if (hasExpired) {
      // A repeat of what was accepted in time: "too late" would say that nothing was.
      const answer = await answerTo(tools, mail, rows, await tools.admitter.lookGroup(rows, mail.until))
      return answer === undefined || isRefusal(answer) ? expired : answer
    }
    if (mail.plainText === undefined || !tools.scanner.clears(mail.plainText)) {
      // The cheap refusals before the dear scan, by the same list.
      const answer = await answerTo(tools, mail, rows, await tools.admitter.lookGroup(rows, mail.until))
      if (answer !== undefined) return answer
      // The whole mail as one file: the scanner looks into it, as deep as it goes.
      const whole = { filename: 'message.eml', contentType: 'message/rfc822', isWholeMail: true, wantsText }
      const passed = await scanned(tools, [{ ...whole, bytes: mail.scanned }], () => undefined, mail.workspaceId)
      if (isRefusal(passed)) return passed
      record = passed.record
      text = passed.text
    }
    const content = wantsText
      ? await stageContent(tools, mail, ids, text ?? textOfMail(mail.content))
      : { body: completed(mail, ids).toString(), form: 'mail' }
    const whole = rows.map((row) => ({
      ...row,
      fields: { ...row.fields, ...content },
      ...(record !== undefined && { scan: record }),
    }))
    for (let round = 0; round < roundsMax; round++) {
      // All or none: the first stands for all. Over SMTP, `until` leaves time for the look.
      const known = await orFound(tools.admitter.admitGroup(whole, mail.until), () =>
        isKept(tools, mail.workspaceId, ids[0] as MessageId),
      )
      if (known === 'found' || known.every(({ admitted }) => admitted)) return { ids, replayed: false }
      const answer = await answerTo(tools, mail, rows, known)
      if (answer !== undefined) return answer
    }
  } catch (error) {
    if (!(error instanceof AdmissionTooLate)) throw error
  }
  return tooSlow
}

/** What an equal mail was answered, where it is admitted by now, for all recipients that have a key. */
async function leftBy(tools: AcceptTools, mail: MailSubmission): Promise<AcceptedMail | Refusal | undefined> {
  const ids = mail.recipients.map(() => tools.ids.next())
  const rows = rowsOf(tools, mail, ids)
  const known = await tools.admitter.lookGroup(rows, mail.until)
  const isThere = rows.every(({ fields }, at) => fields['idem'] === undefined || known[at]?.repeated_id !== null)
  return isThere ? answerTo(tools, mail, rows, known) : undefined
}

/** The answer, where these facts give one. Of a repeat, those who have the mail are left alone, and the others decided about. */
async function answerTo(
  tools: AcceptTools,
  mail: MailSubmission,
  rows: readonly AdmissionRow[],
  known: readonly Admission[],
): Promise<AcceptedMail | Refusal | undefined> {
  const { idempotency } = mail
  const taken = known.map(({ repeated_id }) => repeated_id)
  if (idempotency?.kind !== 'repeat' || taken.every((id) => id === null)) return verdictOn(tools, mail, rows, known)
  const recipients = mail.recipients.filter((_recipient, at) => taken[at] === null)
  if (recipients.length === 0) return { ids: taken as MessageId[], replayed: true }
  const others = await decide(tools, { ...mail, recipients })
  if (isRefusal(others)) return others
  const ids = [...others.ids]
  return { ids: taken.map((id) => id ?? (ids.shift() as MessageId)), replayed: false }
}

/** A key of the whole that has outlived all its records does not count: it is forgotten, and the next round admits. */
async function verdictOn(
  tools: AcceptTools,
  mail: MailSubmission,
  [row]: readonly AdmissionRow[],
  known: readonly Admission[],
): Promise<AcceptedMail | Refusal | undefined> {
  const [first] = known
  if (first === undefined || row === undefined) throw new Error('a group without an answer')
  const { idempotency } = mail
  const asked = {
    messages: mail.recipients.length,
    ...(idempotency !== undefined && { idempotency: { key: idempotency.key, bodyHash: idempotency.hash } }),
  }
  const facts = { ...first, suppressed: known.some(({ suppressed }) => suppressed) }
  const ids = first.repeated_ids ?? (first.repeated_id === null ? [] : [first.repeated_id])
  const records = await Promise.all(ids.map((id) => tools.readRecord(mail.workspaceId, id)))
  const mayBeOutlived = ids.length > 0 && records.every((record) => record === undefined)
  const isOutlived = mayBeOutlived && (await tools.admitter.forgetOutlived(row, first))
  const verdict = judge(asked, isOutlived ? { ...facts, repeated_id: null } : facts)
  if (verdict !== 'repeated') return verdict
  return idempotency?.kind === 'key' && !isFor(mail, records) ? keyReused : { ids, replayed: true }
}

/** A yes would say of somebody new that there is a message. */
function isFor(mail: MailSubmission, records: readonly (MessageRecord | undefined)[]): boolean {
  const known = new Set(records.map((record) => record?.recipient))
  return mail.recipients.every(({ text }) => known.has(text))
}

const keyReused = refuse(
  'idempotency_key_reused',
  'This X-Idempotency-Key was used before, and not for all of these recipients; use a new key for them.',
)

/** Where the keys of each kind are unique. */
const keySpaces = {
  key: 'smtp',
  repeat: 'smtp-repeat',
  again: 'send_again',
} as const satisfies Record<MailIdempotency['kind'], string>

/** The rows of the admission statement, without the content. A key of the whole stands in the first. */
function rowsOf(tools: AcceptTools, mail: MailSubmission, ids: readonly MessageId[]): AdmissionRow[] {
  const { idempotency } = mail
  const keys = keysOf(mail)
  return mail.recipients.map((recipient, at) => ({
    workspaceId: mail.workspaceId,
    fields: {
      id: ids[at],
      w: mail.workspaceId,
      mailbox: mail.mailboxId,
      source: 'smtp',
      recipient: recipient.text,
      recipient_key: recipient.key,
      destination: recipient.domain,
      subject: mail.subject,
      metadata: mail.metadata,
      expires: mail.expiresAt,
      accepted_by: tools.hostname,
      age_ms: limits.messageAgeMsMax,
      ...(idempotency !== undefined &&
        keys[at] !== undefined && {
          endpoint: keySpaces[idempotency.kind],
          idem: keys[at],
          hash: idempotency.hash,
          ...(idempotency.kind === 'repeat' ? { keep_ms: idempotency.keptMs } : ids.length > 1 && { ids }),
        }),
    },
  }))
}

/** A small mail travels in the admission itself, as text; a big one, or one that is no text, is staged once for all its recipients. */
function standsInRecord(mail: MailSubmission, ids: readonly MessageId[]): boolean {
  const length = mail.content.length + fieldsLacking(mail, ids).length
  return length * ids.length <= limits.contentInlineBytesMax && isUtf8(mail.content)
}

/** `text` is what a person would read of it, for the record. */
async function stageContent(
  tools: AcceptTools,
  mail: MailSubmission,
  ids: readonly MessageId[],
  text: string,
): Promise<Record<string, unknown>> {
  const content = completed(mail, ids)
  const blob = tools.ids.next()
  await tools.stage(blob, content)
  const placed: Record<string, unknown> = {
    shares_blobs: ids.length > 1,
    files: [{ position: 0, filename: 'message.eml', content_type: 'message/rfc822', size: content.length, blob }],
  }
  if (text.length * ids.length <= limits.contentInlineBytesMax) placed['body'] = text
  else {
    placed['body_blob'] = tools.ids.next()
    await tools.stage(placed['body_blob'] as string, Buffer.from(text))
  }
  return placed
}

/** With the mandatory fields that it lacks, so that every recipient and every attempt gets the same mail. */
function completed(mail: MailSubmission, ids: readonly MessageId[]): Buffer {
  if (mail.lacks.length === 0) return mail.content
  return Buffer.concat([Buffer.from(fieldsLacking(mail, ids)), mail.content])
}

/** Made of the first id; ASCII. */
function fieldsLacking({ lacks, senderDomain }: MailSubmission, [id = '' as MessageId]: readonly MessageId[]): string {
  if (lacks.length === 0) return ''
  // The id's own time is the database's (store/message-id.ts).
  const date = timeOfId(id).toUTCString().replace('GMT', '+0000')
  const values = { Date: date, 'Message-ID': `<${id}@${senderDomain}>` }
  return lacks.map((name) => `${name}: ${values[name]}\r\n`).join('')
}
