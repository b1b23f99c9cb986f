// What became of an admission whose commit had no answer (decisions A1).
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { surelyNotAdmitted } from '../store/admit.ts'
import { isDatabaseAway } from '../store/database.ts'
import type { AcceptTools } from './accept.ts'

/** The answer; `found` where the commit has none, and what was to be admitted is there all the same. `look` asks over another connection. */
export async function orFound<Known>(
  admitting: Promise<Known>,
  look: () => Promise<boolean>,
): Promise<Known | 'found'> {
  try {
    return await admitting
  } catch (error) {
    if (surelyNotAdmitted(error) || !isDatabaseAway(error)) throw error
    if (await look().catch(() => false)) return 'found'
    throw error
  }
}

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
