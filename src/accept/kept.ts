// What became of an admission whose commit had no answer (decisions A1).
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { AcceptTools } from './accept.ts'

/** Whether it is there, and as durable as an accepted message must be: a row that can be read may not have reached the synchronous standby yet. */
export async function isKept(
  { readRecord, commitSomething }: Pick<AcceptTools, 'readRecord' | 'commitSomething'>,
  workspace: WorkspaceId,
  id: MessageId,
): Promise<boolean> {
  if ((await readRecord(workspace, id)) === undefined) return false
  await commitSomething()
  return true
}
