// Is a recipient suppressed? Sessions of a workspace that sends much would ask the database for every mail, beside the admission, which asks
// again and decides. So the whole list of such a workspace is remembered for less than a second, where it is not too long. Whoever asks
// seldom gets the database's own answer, and so does whoever asks for a name on the list: a removal is felt at once.
import { Batch } from '../base/batch.ts'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { surelyAborted, type Db } from '../store/database.ts'
import { suppressedAmong, suppressedKeys } from '../store/suppressions.ts'

interface Asker {
  /** How often within the second that began at `since`. */
  asked: number
  since: number
  /** The keys on its list; undefined where they are not known, or too many. */
  keys?: ReadonlySet<string> | undefined
  until: number
  reading: boolean
}

export type IsSuppressed = (workspace: WorkspaceId, key: string) => Promise<boolean> | boolean

export function suppressionLookUp(db: Db, log: Log, now = () => performance.now()): IsSuppressed {
  const questions = new Batch<{ workspaceId: WorkspaceId; key: string }, boolean>(
    (pairs) => suppressedAmong(db, pairs),
    { rowsMax: limits.admitRowsMax, bytesMax: limits.admitBytesMax, waitingMax: limits.admitWaitingMax },
    surelyAborted,
  )
  const askers = new Map<WorkspaceId, Asker>()

  const askerOf = (workspace: WorkspaceId): Asker => {
    const known = askers.get(workspace)
    if (known !== undefined) return known
    const oldest = askers.size >= limits.suppressionAskersMax ? askers.keys().next().value : undefined
    if (oldest !== undefined) askers.delete(oldest)
    const asker: Asker = { asked: 0, since: now(), until: -Infinity, reading: false }
    askers.set(workspace, asker)
    return asker
  }

  /** In the background: the database answers meanwhile. */
  const read = async (workspace: WorkspaceId, asker: Asker): Promise<void> => {
    asker.reading = true
    const began = now()
    try {
      const keys = await suppressedKeys(db, workspace, limits.suppressionsRememberedMax + 1)
      const all = keys.length <= limits.suppressionsRememberedMax
      asker.keys = all ? new Set(keys) : undefined
      asker.until = began + (all ? limits.principalCacheMs : limits.suppressionsTooManyMs)
    } catch (error) {
      asker.keys = undefined
      log.fault('suppressions: the list of a workspace could not be read', error)
    } finally {
      asker.reading = false
    }
  }

  return (workspaceId, key) => {
    const at = now()
    const asker = askerOf(workspaceId)
    if (at - asker.since >= 1_000) {
      asker.since = at
      asker.asked = 0
    }
    asker.asked++
    if (at < asker.until) {
      if (asker.keys?.has(key) === false) return false
    } else if (asker.asked > limits.suppressionsAskedMany && !asker.reading) void read(workspaceId, asker)
    return questions.add({ workspaceId, key }, key.length)
  }
}
