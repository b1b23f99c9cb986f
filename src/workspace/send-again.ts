// A person's answer to a failure and to delivery_unknown: the same mail as a new message with its own id, at most once. An unknown one only while it
// is still unknown, and only after a time in which no worker can still hold its socket (delivery-semantics, "Send again"); a failed one at once,
// unless it came all the same (decisions 0068). The conditions stand in the transaction of the admission itself (migration 0052); what is
// looked at here first is for the words. What came over SMTP goes out octet for octet as it was kept (decisions 0047).
import { turnFor, turns } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import type { Refusal } from '../domain/refusal.ts'
import { isRefusal } from '../domain/refusal.ts'
import type { Accepted, AcceptedMail, MailSubmission, MessageRecord, Submission } from '../domain/submission.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { isMailMistake, readSubmittedMail } from '../mail/submitted-mail.ts'
import { writeAudit } from '../store/audit.ts'
import { readFiles } from '../store/blobs.ts'
import { commitSomething, type Db } from '../store/database.ts'
import { isNotReplaceable, readReplaceable, readSentAgain, type Replaceable } from '../store/sent-again.ts'
import { readRecord } from '../store/views/message-status.ts'
import { stillBy, type By } from './by.ts'
import { busy, Mistake, noSuchMessage } from './mistake.ts'

interface Tools {
  readonly db: Db
  readonly accept: (submission: Submission) => Promise<Accepted | Refusal>
  readonly acceptMail: (submission: MailSubmission) => Promise<AcceptedMail | Refusal>
}

/** `replayed`: it had been sent again before. */
export interface SentInPlace {
  readonly message: MessageRecord
  readonly replayed: boolean
}

/** A message with its files is held, some of it twice, while it is scanned and admitted: nobody took room for it as for the body of a send. */
const turn = turns({ most: 2, share: 1, waitMs: limits.largeRequestWaitMs })

/** Those of one workspace come one after the other: so who asks for the same one at the same moment hears what became of it, and reads no file. */
export async function sendAgain(tools: Tools, by: By, id: MessageId): Promise<SentInPlace | Refusal> {
  const leave = await turnFor(by.workspaceId, turn, () => busy('Too many messages are being sent again'))
  return sendInPlace(tools, by, id).finally(leave)
}

async function sendInPlace(tools: Tools, by: By, id: MessageId): Promise<SentInPlace | Refusal> {
  const { db } = tools
  const message = await readReplaceable(db, by.workspaceId, id, limits.sendAgainGraceSeconds)
  if (message === undefined) throw noSuchMessage()
  const { sentAgainAs } = await readSentAgain(db, by.workspaceId, id)
  // The key of the first time may have been forgotten, and the content be gone.
  if (sentAgainAs !== undefined) {
    const message = await recordOf(db, by, sentAgainAs)
    await commitSomething(db) // who is told that it is there is told that it is kept
    return { message, replayed: true }
  }
  refuseOthers(message)
  const recipient = parseAddress(message.recipient)
  if (recipient === undefined) throw new Error(`message ${id} has a recipient that is none`)
  const write = (tx: Db, action: string, facts?: object) =>
    writeAudit(tx, {
      workspaceId: by.workspaceId,
      actor: by.actor,
      action,
      target: id,
      ...(facts !== undefined && { facts }),
    })
  // Before it: behind it this process may be gone, and nobody would know who has sent it. And behind the wait for a turn, in which they may have lost the right.
  await db.transaction(async (tx) => {
    await stillBy(tx, by, 'mail.send')
    await write(tx, 'message.send_again_asked')
  })
  try {
    const answer = await (message.source === 'smtp' ? mailAgain : textAgain)(tools, by, { ...message, id, recipient })
    if (!isRefusal(answer) && !answer.replayed) await write(db, 'message.sent_again', { again: answer.message.id })
    return answer
  } catch (error) {
    if (!isNotReplaceable(error)) throw error
    throw new Mistake('More is known of this message by now; look at what became of it.', { code: 'conflict' })
  }
}

type Again = Omit<Replaceable, 'recipient'> & { readonly id: MessageId; readonly recipient: EmailAddress }

const expired = (): Mistake =>
  new Mistake('The content of this message has expired, or is not there any more; it cannot be sent again.', {
    code: 'conflict',
  })

/** At most once is this key's uniqueness; its form is the trigger's (migration 0052). */
const keyOf = (id: MessageId): string => `${id}+${limits.sendAgainGraceSeconds}`

/** What came over REST is composed anew, with the new message's id and date. */
async function textAgain({ db, accept }: Tools, by: By, message: Again): Promise<SentInPlace | Refusal> {
  const { id, source, mailboxId, recipient, subject, metadata } = message
  const bodyText = message.hasContent ? await message.bodyText() : undefined
  const attachments = await readFiles(db, by.workspaceId, id)
  if (bodyText === undefined || attachments === undefined) throw expired()
  return accept({
    workspaceId: by.workspaceId,
    source,
    mailboxId,
    recipient,
    subject,
    bodyText,
    attachments,
    ...(metadata !== undefined && { metadata }),
    idempotency: { endpoint: 'send_again', key: keyOf(id), bodyHash: id },
  })
}

/** What came over SMTP stays as it is: its author's words, fields and Message-ID. */
async function mailAgain({ db, acceptMail }: Tools, by: By, message: Again): Promise<SentInPlace | Refusal> {
  const { id, mailboxId, recipient, subject, metadata } = message
  const content = message.hasContent ? await message.mail() : undefined
  if (content === undefined) throw expired()
  const read = readSubmittedMail(content, true, Date.now())
  const answer = await acceptMail({
    workspaceId: by.workspaceId,
    mailboxId,
    recipients: [recipient],
    // The signatures may be newer than those of the first time.
    scanned: content,
    ...(!isMailMistake(read) && read.plainText !== undefined && { plainText: read.plainText }),
    content,
    // Date and Message-ID were made when it was accepted first, where its author gave none.
    lacks: [],
    senderDomain: message.sender.slice(message.sender.lastIndexOf('@') + 1),
    subject,
    ...(metadata !== undefined && { metadata }),
    idempotency: { kind: 'again', key: keyOf(id), hash: id },
    until: performance.now() + limits.scanMs + limits.stagingMs + limits.admissionMs,
  })
  if (isRefusal(answer)) return answer
  return { message: await recordOf(db, by, answer.ids[0] as MessageId), replayed: answer.replayed }
}

async function recordOf(db: Db, by: By, id: MessageId): Promise<MessageRecord> {
  const record = await readRecord(db, by.workspaceId, id)
  if (record === undefined) throw new Error(`message ${id} was accepted, but its record is gone`)
  return record
}

/** Whether its state allows it. Providers report about what they refused, too: then it came all the same. */
export function mayBeSentAgain({ status, deliveryStatus }: Pick<Replaceable, 'status' | 'deliveryStatus'>): boolean {
  if (status === 'failed') return deliveryStatus !== 'delivered' && deliveryStatus !== 'complaint'
  return status === 'delivery_unknown'
}

function refuseOthers(message: Replaceable): void {
  const { status, waitSeconds } = message
  if (!mayBeSentAgain(message))
    throw new Mistake(
      status === 'failed'
        ? 'This message was refused, and came all the same, by the word of its provider: it is not sent again. To send it once more, send a new one.'
        : `Only a message that failed, or that is delivery_unknown, can be sent again; this one is ${status}. To send it once more, send a new one.`,
      { code: 'conflict' },
    )
  if (status === 'delivery_unknown' && waitSeconds > 0)
    throw new Mistake(
      `It is too early: for ${waitSeconds} more seconds its delivery may still end by itself. Try again after that.`,
      { code: 'conflict', retryAfterSeconds: waitSeconds },
    )
}
