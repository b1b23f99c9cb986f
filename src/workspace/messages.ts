// Messages as an operator looks at them: by id alone, with everything that happened.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { listRefusals, type RefusalRow } from '../store/refused-submissions.ts'
import { listMessages, readTimeline, workspaceOfMessage } from '../store/views/message-timeline.ts'
import type { MessageSummary, Timeline } from '../store/views/message-timeline.ts'
import { Mistake, parseId } from './mistake.ts'

export type { MessageSummary, Timeline } from '../store/views/message-timeline.ts'

/** The latest `most`, newest first. */
export function listMessagesOf(db: Db, workspace: WorkspaceId, most: number): Promise<MessageSummary[]> {
  if (most > limits.messagesListedMax)
    throw new Mistake(`At most ${limits.messagesListedMax} messages are listed at once.`)
  return listMessages(db, workspace, most)
}

/** The latest `most` submissions that were refused, newest first. */
export function listRefusedOf(db: Db, workspace: WorkspaceId, most: number): Promise<RefusalRow[]> {
  if (most > limits.messagesListedMax)
    throw new Mistake(`At most ${limits.messagesListedMax} refusals are listed at once.`)
  return listRefusals(db, workspace, most)
}

export async function showMessage(db: Db, text: string): Promise<Timeline> {
  const id = parseId(text, 'message') as MessageId
  const workspace = await workspaceOfMessage(db, id)
  const timeline = workspace === undefined ? undefined : await readTimeline(db, workspace, id)
  if (timeline === undefined) throw new Mistake(`There is no message ${id}.`)
  return timeline
}
