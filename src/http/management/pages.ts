// Cursors of lists: opaque to callers, the last item's place to us.
import { isUtf8 } from 'node:buffer'
import { parseUuid } from '../../base/uuid.ts'
import { limits } from '../../config.ts'
import { refuse } from '../../domain/refusal.ts'
import type { Refusal } from '../../domain/refusal.ts'

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
  const before = parseUuid(decoded(cursor) ?? '')
  return before === undefined ? wrong : { before, most: limit }
}

/** Looser than an address as we take it today: what was listed once must be a place for good. */
const addressKey = /^[^\p{C}\p{Z}]+@[a-z0-9.-]+$/u

/** Of lists whose place is the key of an address. */
export function addressPagingOf({ cursor, limit = limits.pageDefault }: Asked): Paging | Refusal {
  if (cursor === undefined) return { most: limit }
  const before = decoded(cursor)
  return before === undefined || !addressKey.test(before) ? wrong : { before, most: limit }
}

/** Undefined for what `presentPage` cannot have written: a damaged cursor must not look like the end of the list. */
function decoded(cursor: string): string | undefined {
  const bytes = Buffer.from(cursor, 'base64url') // skips what is no Base64
  return isUtf8(bytes) && bytes.toString('base64url') === cursor ? bytes.toString() : undefined
}

export function presentPage<T>({ items, next }: { readonly items: readonly T[]; readonly next?: string }) {
  return { items, ...(next !== undefined && { next: Buffer.from(next).toString('base64url') }) }
}
