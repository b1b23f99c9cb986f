// Cursors of lists: opaque to callers, the last item's place to us.
import { limits } from '../../config.ts'
import { refuse } from '../../domain/refusal.ts'
import type { Refusal } from '../../domain/refusal.ts'
import { parseUuid } from '../send-request.ts'

const wrong: Refusal = refuse('invalid_request', '"cursor" must be the "next" of the page before, as it was given.', {
  field: 'cursor',
})

interface Asked {
  readonly cursor?: string
  readonly limit?: number
}

export interface Paging {
  /** Where the page before ended. */
  readonly before?: string
  readonly most: number
}

/** Of lists whose place is an id. */
export function pagingOf({ cursor, limit = limits.pageDefault }: Asked): Paging | Refusal {
  if (cursor === undefined) return { most: limit }
  const before = parseUuid(Buffer.from(cursor, 'base64url').toString())
  return before === undefined ? wrong : { before, most: limit }
}

/** Of lists whose place is a text. */
export function textPagingOf({ cursor, limit = limits.pageDefault }: Asked): Paging | Refusal {
  if (cursor === undefined) return { most: limit }
  const before = Buffer.from(cursor, 'base64url').toString()
  return before === '' || before.includes('\0') || !before.isWellFormed() ? wrong : { before, most: limit }
}

export function presentPage<T>({ items, next }: { readonly items: readonly T[]; readonly next?: string }) {
  return { items, ...(next !== undefined && { next: Buffer.from(next).toString('base64url') }) }
}
