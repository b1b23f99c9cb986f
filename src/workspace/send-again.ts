// A person's answer to delivery_unknown: the same mail as a new message with its own id, at most once, only while it is still unknown, and only
// after a time in which no worker can still hold its socket (delivery-semantics, "Send again"). The conditions stand in the transaction of
// the admission itself (migration 0008); what is looked at here first is for the words.
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import type { Refusal } from '../domain/refusal.ts'
import { isRefusal } from '../domain/refusal.ts'
import type { Accepted, Submission } from '../domain/submission.ts'
import { parseAddress } from '../mail/address.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { isNotReplaceable, readFiles, readReplaceable, readSentAgain } from '../store/sent-again.ts'
import type { By } from './by.ts'
import { Mistake } from './mistake.ts'

export async function sendAgain(
  { db, accept }: { readonly db: Db; readonly accept: (submission: Submission) => Promise<Accepted | Refusal> },
  by: By,
  id: MessageId,
): Promise<Accepted | Refusal> {
  const message = await readReplaceable(db, by.workspaceId, id, limits.sendAgainGraceSeconds)
  if (message === undefined)
    throw new Mistake('No message with this id exists in your workspace.', { code: 'not_found' })
  const isRepeat = (await readSentAgain(db, by.workspaceId, id)).sentAgainAs !== undefined
  if (!isRepeat) refuseTooEarly(message)
  const bodyText = await message.bodyText()
  const attachments = await readFiles(db, by.workspaceId, id)
  const recipient = parseAddress(message.recipient)
  if (recipient === undefined) throw new Error(`message ${id} has a recipient that is none`)
  if ((!message.hasContent || bodyText === undefined || attachments === undefined) && !isRepeat)
    throw new Mistake('The content of this message has expired; it cannot be sent again.', { code: 'conflict' })
  try {
    const answer = await accept({
      workspaceId: by.workspaceId,
      source: 'rest',
      mailboxId: message.mailboxId,
      recipient,
      subject: message.subject,
      bodyText: bodyText ?? '',
      attachments: attachments ?? [],
      ...(message.metadata !== undefined && { metadata: message.metadata }),
      idempotency: { endpoint: 'send_again', key: `${id}+${limits.sendAgainGraceSeconds}`, bodyHash: id },
    })
    if (!isRefusal(answer) && !answer.replayed)
      await writeAudit(db, {
        workspaceId: by.workspaceId,
        actor: by.actor,
        action: 'message.sent_again',
        target: id,
        facts: { again: answer.message.id },
      })
    return answer
  } catch (error) {
    if (!isNotReplaceable(error)) throw error
    throw new Mistake('This message is not unknown any more; look at what became of it.', { code: 'conflict' })
  }
}

function refuseTooEarly({
  status,
  source,
  waitSeconds,
}: {
  status: string
  source: string
  waitSeconds: number
}): void {
  if (status !== 'delivery_unknown')
    throw new Mistake(
      `Only a message in the state delivery_unknown can be sent again; this one is ${status}. To send it once more, send a new one.`,
      { code: 'conflict' },
    )
  // Not yet: what came over SMTP is kept as it was submitted, and would have to be admitted so.
  if (source !== 'rest')
    throw new Mistake('A message that came over SMTP cannot be sent again from here; submit it again.', {
      code: 'conflict',
    })
  if (waitSeconds > 0)
    throw new Mistake(
      `It is too early: for ${waitSeconds} more seconds its delivery may still end by itself. Try again after that.`,
      { code: 'conflict', retryAfterSeconds: waitSeconds },
    )
}
