// How much a workspace may still send, for those whose submission was refused before an admission could tell them.
import type { WorkspaceId } from '../domain/message.ts'
import type { QuotaState } from '../domain/submission.ts'
import type { Db } from '../store/database.ts'
import { readWindows } from '../store/usage.ts'
import { quotaOf } from './checks.ts'

/** The limited windows; none of a workspace that is gone. */
export async function readQuota(db: Db, workspace: WorkspaceId): Promise<readonly QuotaState[]> {
  const windows = await readWindows(db, workspace)
  return windows === undefined ? [] : quotaOf(windows)
}
