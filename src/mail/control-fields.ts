// What a program says to us in the header of a mail, beside the mail itself, and nobody else gets to read: the members of a send request over HTTP
// that SMTP has no place for (decisions D). They mean the same, and have the same bounds.
import { limits } from '../config.ts'
import { parseDateTime } from './date-time-rfc3339.ts'
import { lineText, type HeaderLine } from './header-block.ts'
import { decodeWords } from './mime-field.ts'

export interface ControlFields {
  /** `X-Idempotency-Key`. */
  readonly idempotencyKey?: string
  /** `X-Posthorn-Expires-At`, at most 7 days ahead; it may have passed. */
  readonly expiresAt?: Date
  /** `X-Posthorn-Metadata`, an object of strings as JSON. */
  readonly metadata?: Readonly<Record<string, string>>
}

/** At most once in a mail: which of two is meant, nobody knows. */
export const controlFieldNames = ['x-idempotency-key', 'x-posthorn-expires-at', 'x-posthorn-metadata'] as const

/** Not sent on; those that mean nothing (yet) neither. */
export const isControlField = (name: string): boolean => name === 'x-idempotency-key' || name.startsWith('x-posthorn-')

/** Or what is wrong with one of them, in words for whoever wrote the program. */
export function readControlFields(fields: ReadonlyMap<string, HeaderLine>, now: number): ControlFields | string {
  const [key, expiry, pairs] = controlFieldNames.map((name) => {
    const line = fields.get(name)
    return line && decodeWords(lineText(line))
  })
  if (key !== undefined && !isIdempotencyKey(key))
    return `X-Idempotency-Key must have 1 to ${limits.idempotencyKeyCharactersMax} visible ASCII characters`
  const time = expiry === undefined ? undefined : parseDateTime(expiry)
  if (expiry !== undefined && time === undefined)
    return 'X-Posthorn-Expires-At must be a time with a time zone such as 2026-11-21T09:30:00Z (RFC 3339)'
  if (time !== undefined && time > now + limits.expiresAheadMsMax)
    return 'X-Posthorn-Expires-At must be at most 7 days ahead'
  const metadata = pairs === undefined ? undefined : readPairs(pairs)
  if (typeof metadata === 'string') return `X-Posthorn-Metadata ${metadata}`
  return {
    ...(key !== undefined && { idempotencyKey: key }),
    ...(time !== undefined && { expiresAt: new Date(time) }),
    ...(metadata !== undefined && { metadata }),
  }
}

/** Of a caller, over SMTP as over HTTP. */
export const isIdempotencyKey = (text: string): boolean =>
  text.length <= limits.idempotencyKeyCharactersMax && /^[!-~]+$/.test(text)

const charactersIn = (text: string): number => Array.from(text).length

/** All that valid pairs can take as JSON, each character escaped. */
const pairsTextMax =
  limits.metadataPairsMax * 12 * (limits.metadataKeyCharactersMax + limits.metadataValueCharactersMax + 8)

/** Strings by strings, or what is wrong. */
function readPairs(text: string): Record<string, string> | string {
  const shape = 'must be a JSON object of strings such as {"orderId": "1042"}'
  if (text.length > pairsTextMax) return 'is too long'
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return shape
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return shape
  const pairs = Object.entries(value)
  if (pairs.length > limits.metadataPairsMax) return `must have at most ${limits.metadataPairsMax} members`
  for (const [name, each] of pairs) {
    if (typeof each !== 'string') return shape
    if (name === '__proto__') return 'must not have a member "__proto__"'
    if (name === '') return 'has an empty name'
    if (charactersIn(name) > limits.metadataKeyCharactersMax)
      return `must have names of at most ${limits.metadataKeyCharactersMax} characters`
    if (charactersIn(each) > limits.metadataValueCharactersMax)
      return `must have values of at most ${limits.metadataValueCharactersMax} characters`
    if (`${name}${each}`.includes('\0') || !name.isWellFormed() || !each.isWellFormed())
      return 'contains U+0000 or half a surrogate pair; send well-formed Unicode text'
  }
  // Each member is two strings, and nothing else is there: with more, a name stands twice.
  if ((text.match(/"(?:[^"\\]|\\.)*"/g) ?? []).length > 2 * pairs.length) return 'has a member twice'
  return value as Record<string, string>
}
