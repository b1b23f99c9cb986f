// Is a recipient suppressed? Sessions of a workspace that sends much would ask the database for every mail, beside the admission, which asks
// again and decides. So the whole list of such a workspace is remembered for less than a second, where it is not too long. Whoever asks
// seldom gets the database's own answer, and so does whoever asks for a name on the list: a removal is felt at once.
import { Batch } from '../base/batch.ts'
import { BoundedMap } from '../base/bounded-map.ts'
import { remembered } from '../base/remembered.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { mayBlameRows, type Db } from '../store/database.ts'
import { suppressedAmong, suppressedKeys } from '../store/suppressions.ts'

/** How often a workspace has asked since the second began, and whether that was often in the one before. */
interface Asker {
  since: number
  asked: number
  askedMany: boolean
}

export function suppressionLookUp(
  db: Db,
  now = () => performance.now(),
): (workspace: WorkspaceId, key: string) => Promise<boolean> {
  const questions = new Batch<{ workspaceId: WorkspaceId; key: string }, boolean>(
    (pairs) => suppressedAmong(db, pairs),
    { rowsMax: limits.admitRowsMax, bytesMax: limits.admitBytesMax, waitingMax: limits.admitWaitingMax },
    mayBlameRows,
  )
  const lists = remembered((workspace) => readList(db, workspace as WorkspaceId), {
    keepMs: (list) => (list === undefined ? limits.suppressionsTooManyMs : limits.principalCacheMs),
    most: limits.suppressionAskersMax,
    now,
  })
  const askers = new BoundedMap<WorkspaceId, Asker>(limits.suppressionAskersMax)

  const asksOften = (workspace: WorkspaceId): boolean => {
    const at = now()
    let asker = askers.get(workspace)
    if (asker === undefined) {
      asker = { since: at, asked: 0, askedMany: false }
      askers.set(workspace, asker)
    }
    if (at - asker.since >= 1_000) {
      asker.askedMany = asker.asked > limits.suppressionsAskedMany && at - asker.since < 2_000
      asker.since = at
      asker.asked = 0
    }
    return ++asker.asked > limits.suppressionsAskedMany || asker.askedMany
  }

  return async (workspaceId, key) => {
    if (asksOften(workspaceId) && (await lists(workspaceId))?.has(key) === false) return false
    return questions.add({ workspaceId, key }, key.length, { owner: workspaceId, rows: 1 })
  }
}

/** Undefined where it is longer than may be remembered. */
async function readList(db: Db, workspace: WorkspaceId): Promise<ReadonlySet<string> | undefined> {
  const keys = await suppressedKeys(db, workspace, limits.suppressionsRememberedMax + 1)
  return keys.length > limits.suppressionsRememberedMax ? undefined : new Set(keys)
}
