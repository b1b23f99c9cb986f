// What operators ask of feedback: what came and matched nothing, and a new key for return paths.
import { limits } from '../config.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { rotateReturnPathKey } from '../store/return-path-keys.ts'
import { findUnmatched, listUnmatched, type Unmatched } from '../store/unmatched.ts'

const isUuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const listUnmatchedFeedback = (db: Db, most: number): Promise<Unmatched[]> =>
  listUnmatched(db, Math.min(most, limits.unmatchedFeedbackMax))

/** With its beginning as text; undefined where there is none by this id. */
export async function findUnmatchedFeedback(
  db: Db,
  id: string,
): Promise<(Unmatched & { readonly content: string }) | undefined> {
  const found = isUuid.test(id) ? await findUnmatched(db, id) : undefined
  return found && { ...found, content: found.content.toString('latin1') }
}

/** Messages accepted from `since` on are signed with the new key; the tokens of the last few keys stay good. */
export async function rotateReturnPath(db: Db, actor: string): Promise<{ readonly key: string; readonly since: Date }> {
  const { id, since } = await rotateReturnPathKey(db)
  await writeAudit(db, { actor, action: 'return_path_key.rotated', target: id, facts: { since } })
  return { key: id, since }
}
