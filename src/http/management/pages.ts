// Cursors of lists: opaque to callers, the last item's place to us. And the times between which a list or a chart is asked for.
import { isUtf8 } from 'node:buffer'
import { parseUuid } from '../../base/uuid.ts'
import { limits } from '../../config.ts'
import { Mistake } from '../../workspace/workspace.ts'

interface Asked {
  readonly cursor?: string
  readonly limit?: number
}

interface Paging {
  /** Where the page before ended. */
  readonly before?: string
  readonly most: number
}

/** The query of a list, with its place in place of the cursor. Throws a `Mistake` for a cursor that is none of this list's. */
type PagingOf = <Query extends Asked>(query: Query) => Omit<Query, keyof Asked> & Paging

const reading =
  (placeIn: (text: string) => string | undefined): PagingOf =>
  ({ cursor, limit = limits.pageDefault, ...rest }) => {
    if (cursor === undefined) return { ...rest, most: limit }
    const before = placeIn(decoded(cursor) ?? '')
    if (before !== undefined) return { ...rest, before, most: limit }
    throw new Mistake('"cursor" must be the "next" of the page before, as it was given.', { field: 'cursor' })
  }

/** Of lists whose place is an id. */
export const pagingOf: PagingOf = reading(parseUuid)

/** Looser than an address as we take it today: what was listed once must be a place for good. */
const addressKey = /^[^\p{C}\p{Z}]+@[a-z0-9.-]+$/u

/** Of lists whose place is the key of an address. */
export const addressPagingOf: PagingOf = reading((text) => (addressKey.test(text) ? text : undefined))

/** Undefined for what `presentPage` cannot have written: a damaged cursor must not look like the end of the list. */
function decoded(cursor: string): string | undefined {
  const bytes = Buffer.from(cursor, 'base64url') // skips what is no Base64
  return isUtf8(bytes) && bytes.toString('base64url') === cursor ? bytes.toString() : undefined
}

/** A query with its times as dates. */
export function timesOf<Query extends { readonly from?: string; readonly to?: string }>({ from, to, ...rest }: Query) {
  return { ...rest, ...(from && { from: new Date(from) }), ...(to && { to: new Date(to) }) }
}

export function presentPage<T>({ items, next }: { readonly items: readonly T[]; readonly next?: string }) {
  return { items, ...(next !== undefined && { next: Buffer.from(next).toString('base64url') }) }
}
