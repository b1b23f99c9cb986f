// The query string of a page: `after`, an opaque cursor, and `limit`. Anything else there is a mistake.
import { limits } from '../config.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'

export interface PageQuery {
  readonly after?: string
  readonly limit?: number
}

const cursorCharactersMax = 200

export function readPage(query: unknown): PageQuery | Refusal {
  const { after, limit, ...others } = query as Readonly<Record<string, unknown>>
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return wrong(unknown.slice(0, 64), 'is not a parameter here; remove it')
  if (after !== undefined && (typeof after !== 'string' || after.length > cursorCharactersMax))
    return wrong('after', 'must be the "next" of an earlier page, as it was')
  if (limit === undefined) return after === undefined ? {} : { after }
  const number = typeof limit === 'string' && /^\d{1,4}$/.test(limit) ? Number(limit) : 0
  if (number < 1 || number > limits.eventsPageMax)
    return wrong('limit', `must be a whole number from 1 to ${limits.eventsPageMax}`)
  return { limit: number, ...(after !== undefined && { after }) }
}

const wrong = (field: string, sentence: string): Refusal =>
  refuse('invalid_request', `"${field}" ${sentence}.`, { field })
