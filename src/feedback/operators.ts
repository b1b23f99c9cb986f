// What operators ask of feedback: what came and matched nothing, and a new key for return paths.
import { given } from '../base/given.ts'
import { isUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import type { Page } from '../domain/page.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { cutPage } from '../store/page.ts'
import { rotateReturnPathKey } from '../store/return-path-keys.ts'
import { findUnmatched, pageUnmatched, type Unmatched } from '../store/unmatched.ts'

/** Newest first, from before an id; `next` is the last one's, where there are more. */
export async function pageUnmatchedFeedback(db: Db, most: number, before?: string): Promise<Page<Unmatched>> {
  const shownMax = Math.min(most, limits.unmatchedFeedbackMax)
  const { shown, last } = cutPage(await pageUnmatched(db, before, shownMax + 1), shownMax)
  return given<Page<Unmatched>>({ items: shown, next: last?.id })
}

/** With its beginning as text: UTF-8, as feeds write it, and people who do not encode their mail. Undefined where there is none by this id. */
export async function findUnmatchedFeedback(
  db: Db,
  id: string,
): Promise<(Unmatched & { readonly content: string }) | undefined> {
  const found = isUuid(id) ? await findUnmatched(db, id) : undefined
  return found && { ...found, content: found.content.toString() }
}

/** Messages accepted from `since` on are signed with the new key; the tokens of the last few keys stay good. */
export function rotateReturnPath(db: Db, actor: string): Promise<{ readonly key: string; readonly since: Date }> {
  return db.transaction(async (tx) => {
    const { id, since } = await rotateReturnPathKey(tx)
    await writeAudit(tx, { actor, action: 'return_path_key.rotated', target: id, facts: { since } })
    return { key: id, since }
  })
}
