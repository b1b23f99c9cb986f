// What was refused and never became a message, as its workspace and operators look at it: newest first, and only some of it where they say which.
import { given, shown, type Given } from '../base/given.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import type { Db } from '../store/database.ts'
import { searchRefusals, type RefusalFilter, type RefusalRow } from '../store/refused-submissions.ts'
import { checkTimes, Mistake } from './mistake.ts'

export type { RefusalFilter } from '../store/refused-submissions.ts'

export type Refused = Given<Omit<RefusalRow, 'callerId'>> & {
  readonly keyId?: string
  readonly smtpCredentialId?: string
}

/** The latest `most` of them. */
export async function listRefusedOf(
  db: Db,
  workspace: WorkspaceId,
  most: number,
  filter: RefusalFilter = {},
): Promise<RefusalRow[]> {
  if (most > limits.messagesListedMax)
    throw new Mistake(`At most ${limits.messagesListedMax} refusals are listed at once.`)
  checkTimes(filter)
  const all: RefusalRow[] = []
  let before: string | undefined
  do {
    const page = await searchRefusals(db, workspace, filter, { before, most: most - all.length })
    all.push(...page.rows)
    before = page.next
  } while (before !== undefined && all.length < most)
  return all
}

/** A page of them. Of those with one code or source it looks at a bounded number, and `next` goes on behind these. */
export async function pageRefused(
  db: Db,
  workspace: WorkspaceId,
  { before, most, ...filter }: RefusalFilter & { readonly before?: string; readonly most: number },
): Promise<Page<Refused>> {
  checkTimes(filter)
  const { rows, next } = await searchRefusals(db, workspace, filter, { before, most })
  return given<Page<Refused>>({ items: rows.map(withCaller), next })
}

function withCaller({ callerId, ...row }: RefusalRow): Refused {
  const caller = callerId !== null && { [row.source === 'smtp' ? 'smtpCredentialId' : 'keyId']: callerId }
  return { ...shown(row), ...caller }
}
