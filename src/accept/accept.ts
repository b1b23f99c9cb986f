// The one way in: a submission becomes a queued message, or a refusal (decisions A1, D). Whoever calls has proved who they are; nothing
// else is believed. Accepted is said only after message, content, quota charge, idempotency key and event are committed together.
import { limits } from '../config.ts'
import type { Refusal } from '../domain/refusal.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Accepted, MessageRecord, Submission } from '../domain/submission.ts'
import type { Log } from '../base/log.ts'
import type { Admission, AdmissionRow, Admitter } from '../store/admit.ts'
import { answeredWithin } from '../store/database.ts'
import type { IdMaker } from '../store/message-id.ts'
import { judge, quotaOf, roundsMax, tooSlow } from './checks.ts'
import { equalKeysInTurn } from './equal-keys.ts'
import { isKept, orFound } from './kept.ts'
import type { Scanner, ScanRecord } from './scan.ts'
import { whyNoRecipient } from './recipient.ts'
import { scanned } from './scanned.ts'

export interface AcceptTools {
  readonly ids: IdMaker
  readonly admitter: Admitter
  readonly scanner: Scanner
  /** This machine's name, for the trace field of what it accepts. */
  readonly hostname: string
  readonly log: Log
  /** Keeps bytes for a later admission under this id. */
  stage(id: string, bytes: Buffer): Promise<void>
  /** The record, over a connection that had no part in a failed admission. */
  readRecord(workspace: WorkspaceId, id: MessageId): Promise<MessageRecord | undefined>
  /** Resolves when what can be read is kept as durably as what was accepted: it may lack a synchronous standby yet. Over such a connection, too. */
  commitSomething(): Promise<void>
}

export { makeAcceptMail, type AcceptMail } from './mail.ts'
export { openAcceptance } from './open-acceptance.ts'
export { readQuota } from './quota.ts'
export { whyNoRecipient } from './recipient.ts'
export { makeScanner, type Scanner, type ScannerFacts } from './scan.ts'
export type Accept = (submission: Submission) => Promise<Accepted | Refusal>

export function makeAccept(tools: AcceptTools): Accept {
  const inTurn = equalKeysInTurn<Accepted>()
  return async (submission) => {
    const { idempotency } = submission
    if (idempotency === undefined) return decide(tools, submission)
    const name = `${submission.workspaceId} ${idempotency.endpoint ?? submission.source} ${idempotency.key}`
    return inTurn(
      name,
      () => decide(tools, submission),
      () => leftBy(tools, submission),
    )
  }
}

const tooLate = refuse('invalid_request', '"expiresAt" must be in the future.', { field: 'expiresAt' })

async function decide(tools: AcceptTools, submission: Submission): Promise<Accepted | Refusal> {
  const objection = whyNoRecipient(submission.recipient)
  if (objection !== undefined) return objection
  await tools.ids.sure()
  const id = tools.ids.next()
  const row = { workspaceId: submission.workspaceId, fields: fieldsOf(tools, submission, id) }
  if (submission.expiresAt !== undefined && submission.expiresAt.getTime() <= tools.ids.now()) {
    if (submission.idempotency === undefined) return tooLate
    // A repeat of what was accepted in time: "too late" would say that nothing was.
    const known = await answeredWithin(limits.admissionMs, tools.admitter.look(row))
    const answer = await answerTo(tools, submission, row, known)
    return answer === undefined || isRefusal(answer) ? tooLate : answer
  }
  let record: ScanRecord | undefined
  if (submission.attachments.length > 0) {
    // The cheap refusals before the dear scan, by the same list.
    const known = await answeredWithin(limits.admissionMs, tools.admitter.look(row))
    const answer = await answerTo(tools, submission, row, known)
    if (answer !== undefined) return answer
    const passed = await scanned(
      tools,
      submission.attachments,
      (position) => `attachments.${position}`,
      submission.workspaceId,
    )
    if (isRefusal(passed)) return { ...passed, quota: quotaOf(known) }
    record = passed.record
  }
  const content = await placeContent(tools, submission)
  const fields = { ...row.fields, ...content }
  const whole = { ...row, fields, ...(record !== undefined && { scan: record }) }
  const until = performance.now() + limits.admissionMs
  for (let round = 0; round < roundsMax && performance.now() < until; round++) {
    const known = await orFound(answeredWithin(until - performance.now(), tools.admitter.admit(whole)), () =>
      answeredWithin(limits.rereadMs, isKept(tools, submission.workspaceId, id)),
    )
    if (known === 'found') return found(await recordOf(tools, submission.workspaceId, id), [])
    const answer = await answerTo(tools, submission, row, known)
    if (answer !== undefined) return answer
    if (!known.admitted) continue
    if (known.sender === null) throw new Error(`message ${id} was admitted without a sender`)
    return { message: acceptedRecord(submission, id, known.sender, known.at), replayed: false, quota: quotaOf(known) }
  }
  return tooSlow
}

/** What an equal submission was answered, where it is admitted by now. */
async function leftBy(tools: AcceptTools, submission: Submission): Promise<Accepted | Refusal | undefined> {
  const row = { workspaceId: submission.workspaceId, fields: fieldsOf(tools, submission, tools.ids.next()) }
  const known = await tools.admitter.look(row)
  return known.repeated_id === null ? undefined : answerTo(tools, submission, row, known)
}

/** The answer, where these facts give one. A key that has outlived its record does not count: it is forgotten, and the next round admits. */
async function answerTo(
  tools: AcceptTools,
  submission: Submission,
  row: AdmissionRow,
  known: Admission,
): Promise<Accepted | Refusal | undefined> {
  const { repeated_id: id } = known
  const record = id === null ? undefined : await tools.readRecord(submission.workspaceId, id)
  const isOutlived = id !== null && record === undefined && (await tools.admitter.forgetOutlived(row, known))
  const verdict = judge(submission, isOutlived ? { ...known, repeated_id: null } : known)
  if (verdict !== 'repeated') return verdict
  if (record === undefined) throw new Error(`message ${id} was accepted, but its record cannot be read`)
  return { ...found(record, quotaOf(known)), replayed: true }
}

async function recordOf(tools: AcceptTools, workspace: WorkspaceId, id: MessageId): Promise<MessageRecord> {
  const record = await tools.readRecord(workspace, id)
  if (record === undefined) throw new Error(`message ${id} was accepted, but its record is gone`)
  return record
}

/** An accepted message as its first answer told it. */
function found(record: MessageRecord, quota: Accepted['quota']): Accepted {
  const { providerMessageId: _provider, errorMessage: _error, ...rest } = record
  return { message: { ...rest, status: 'queued', deliveryStatus: 'pending' }, replayed: false, quota }
}

function acceptedRecord(submission: Submission, id: MessageId, sender: string, createdAt: Date): MessageRecord {
  const { workspaceId, mailboxId, recipient, subject, bodyText, metadata, expiresAt } = submission
  return {
    id,
    workspaceId,
    mailboxId,
    status: 'queued',
    deliveryStatus: 'pending',
    sender,
    recipient: recipient.text,
    subject,
    bodyText,
    createdAt,
    ...(metadata !== undefined && { metadata }),
    ...(expiresAt !== undefined && { expiresAt }),
  }
}

/** The row of the admission statement, without the content. */
function fieldsOf(tools: AcceptTools, submission: Submission, id: MessageId): Record<string, unknown> {
  const { recipient, idempotency } = submission
  return {
    id,
    w: submission.workspaceId,
    mailbox: submission.mailboxId,
    source: submission.source,
    recipient: recipient.text,
    recipient_key: recipient.key,
    destination: recipient.domain,
    subject: submission.subject,
    metadata: submission.metadata,
    expires: submission.expiresAt,
    accepted_by: tools.hostname,
    age_ms: limits.messageAgeMsMax,
    ...(idempotency !== undefined && {
      endpoint: idempotency.endpoint ?? submission.source,
      idem: idempotency.key,
      hash: idempotency.bodyHash,
    }),
  }
}

/** Small content travels in the admission itself; big content is staged before it and only referred to. */
async function placeContent(
  tools: AcceptTools,
  { bodyText, attachments }: Submission,
): Promise<Record<string, unknown>> {
  const attached = attachments.reduce((sum, attachment) => sum + attachment.bytes.length, 0)
  const inline = attached + bodyText.length <= limits.contentInlineBytesMax
  const content: Record<string, unknown> = {}
  if (inline || bodyText.length <= limits.contentInlineBytesMax) content['body'] = bodyText
  else {
    content['body_blob'] = tools.ids.next()
    await tools.stage(content['body_blob'] as string, Buffer.from(bodyText))
  }
  if (attachments.length === 0) return content
  const blobs = attachments.map(() => tools.ids.next())
  content['files'] = attachments.map(({ filename, contentType, bytes }, position) => ({
    position,
    filename,
    content_type: contentType,
    size: bytes.length,
    blob: blobs[position],
  }))
  if (inline)
    content['chunks'] = attachments.map(({ bytes }, position) => ({
      blob: blobs[position],
      bytes: bytes.toString('base64'),
    }))
  else for (const [position, { bytes }] of attachments.entries()) await tools.stage(blobs[position] as string, bytes)
  return content
}
