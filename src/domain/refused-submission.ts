// What was refused and never became a message, as it is kept for its workspace to see (decisions H): without addresses.
import type { WorkspaceId } from './message.ts'
import type { RefusalCode } from './refusal.ts'

export interface RefusedSubmission {
  readonly workspaceId: WorkspaceId
  readonly source: 'rest' | 'smtp'
  readonly code: RefusalCode
  /** As MAIL FROM or From named it: mostly no mailbox, and the first thing that is asked. Not over HTTP, where a mailbox has an id. */
  readonly sender?: string
  /** Left out where it is not known. */
  readonly recipientDomain?: string
  /** What was wrong, and the sentence about it. */
  readonly field?: string
  readonly error?: string
  /** The API key, or the SMTP credential. */
  readonly callerId?: string
  readonly requestId?: string
}
