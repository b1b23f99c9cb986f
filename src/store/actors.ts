// Whoever acts in a workspace, held while they act: what they are may not change behind the act's back.
import type { HeldActor } from '../domain/actor.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import { findRole, lockMembers } from './members.ts'
import { isLive } from './term.ts'

const liveKey = sql(
  'find-live-key',
  `select expires_at from api_keys k where workspace_id = $1 and id = $2 and ${isLive('k')}`,
)

/**
 * Locks as a revocation and a change of members do, so that nothing is done behind their back, and tells what whoever acts is now. Undefined where the key
 * has ended, or the person is no member any more. Nothing else about an operator at the machine's keyboard.
 */
export async function holdActor(tx: Db, workspace: WorkspaceId, actor: string): Promise<HeldActor | undefined> {
  await lockMembers(tx, workspace)
  const [kind, id = ''] = actor.split(':')
  if (kind === 'user') {
    const role = await findRole(tx, workspace, id)
    return role && { role }
  }
  if (kind !== 'key') return {}
  const [key] = await tx.rows<{ expires_at: Date | null }>(liveKey, [workspace, id])
  return key && (key.expires_at === null ? {} : { ends: key.expires_at })
}
