// A request body becomes a value, once and strictly: UTF-8 without BOM, JSON (RFC 8259), no member twice, no member
// with prototype meaning, bounded in depth and number of values, every string well-formed Unicode without U+0000
// (decisions D). The bounds are checked before the parser sees the text, and long strings are jumped over, so that no
// body can hold up the event loop.
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { limits } from '../config.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'

/** The value stands in a member of its own: a body that happens to look like a refusal is none. */
export type Json = { readonly value: unknown } | Refusal

export function readJson(bytes: Buffer): Json {
  if (bytes.length === 0) return refuse('invalid_json', 'The body is empty; send a JSON object.')
  if (!isUtf8(bytes)) return refuse('invalid_json', 'The body is not valid UTF-8; encode the JSON text as UTF-8.')
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf)
    return refuse('invalid_json', 'The body begins with a byte order mark; send the JSON text without it.')
  const text = bytes.toString('utf8')
  const wrong = scan(text)
  if (wrong !== undefined) return wrong
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const place = /at position (\d+)/.exec(String(error))?.[1]
    return refuse('invalid_json', `The body is not valid JSON${place === undefined ? '' : ` near character ${place}`}.`)
  }
  // UTF-8 carries neither surrogates nor, inside a JSON string, a raw U+0000: both need an escape.
  const field = text.includes('\\') ? illFormed(value, []) : undefined
  return field === undefined
    ? { value }
    : refuse('invalid_request', `"${field}" contains U+0000 or half a surrogate pair; send well-formed Unicode text.`, {
        field,
      })
}

const quote = 0x22
const backslash = 0x5c
/** Copying code may set the prototype by it. All other names are plain members, also `constructor`. */
const meansPrototype = '__proto__'
const shownCharactersMax = 64
/** What `field` names where no member does: `invalid_request` always names something (decisions I). */
export const wholeBody = { field: 'body' } as const

/**
 * One linear pass that looks at structure only. It does not judge the grammar, which the parser does afterwards; what
 * it reads is right for every text that the parser accepts: a string before a colon is the name of a member.
 */
function scan(text: string): Refusal | undefined {
  let depth = 0
  let values = 0
  let outside = 0
  const names: (Set<string> | undefined)[] = []
  const places: (string | number)[] = [] // at each depth the member or the index that we are in
  for (let at = 0; at < text.length; at++) {
    if (++outside > limits.jsonOutsideStringsMax)
      return refuse(
        'invalid_request',
        'The body has too much white space or too many numbers; send the members as documented.',
        wholeBody,
      )
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = endOfString(text, at + 1)
        if (end < 0) return undefined // no closing quote: the parser says so
        let next = end + 1
        while (isSpace(text.charCodeAt(next))) next++
        outside += next - end
        if (text.charCodeAt(next) !== 0x3a) {
          at = next - 1
          break
        }
        const name = nameOf(text, at, end)
        if (name === undefined) return undefined // a bad escape: the parser says so
        const seen = (names[depth] ??= new Set())
        places[depth] = name
        if (seen.has(name) || name === meansPrototype) {
          const field = pathOf(places.slice(1, depth + 1))
          return refuse(
            'invalid_request',
            seen.has(name)
              ? `"${field}" is given twice; give every member once.`
              : `"${field}" is not allowed: no member may be named "${meansPrototype}".`,
            { field },
          )
        }
        seen.add(name)
        at = next
        break
      }
      case 0x7b: // {
      case 0x5b: // [
        if (++depth > limits.jsonDepthMax) return refuse('invalid_request', 'The body is nested too deeply.', wholeBody)
        names[depth] = undefined
        places[depth] = text.charCodeAt(at) === 0x5b ? 0 : ''
        values++
        break
      case 0x7d: // }
      case 0x5d: // ]
        depth--
        break
      case 0x2c: {
        // A comma: in a list, the next index.
        const place = places[depth]
        if (typeof place === 'number') places[depth] = place + 1
        values++
        break
      }
    }
    if (values > limits.jsonMembersMax) return refuse('invalid_request', 'The body has too many members.', wholeBody)
  }
  return undefined
}

/** Names that a stranger chose are cut before they are repeated. */
function pathOf(places: readonly (string | number)[]): string {
  const parts = places.map((place) => String(place).slice(0, shownCharactersMax))
  return parts.join('.').slice(0, 2 * shownCharactersMax)
}

/** The index of the closing quote, or -1. Short strings are walked; long ones are jumped over from quote to quote. */
function endOfString(text: string, from: number): number {
  let at = from
  for (;;) {
    const stop = at + 256
    for (; at < stop; at++) {
      const unit = text.charCodeAt(at)
      if (unit === quote) return at
      if (unit === backslash) at++
      else if (Number.isNaN(unit)) return -1 // past the end of the text
    }
    const next = text.indexOf('"', at)
    if (next < 0) return -1
    let escapes = 0
    while (next - 1 - escapes >= at && text.charCodeAt(next - 1 - escapes) === backslash) escapes++
    if (escapes % 2 === 0) return next
    at = next + 1
  }
}

/** The name of a member as the parser will understand it: escaped spellings are equal to plain ones. */
function nameOf(text: string, opening: number, closing: number): string | undefined {
  const plain = text.slice(opening + 1, closing)
  if (!plain.includes('\\')) return plain
  try {
    return String(JSON.parse(text.slice(opening, closing + 1)))
  } catch {
    return undefined
  }
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09
}

/**
 * The path of the first string that is not well-formed, names of members included. The scan has bounded depth and
 * number.
 */
function illFormed(value: unknown, places: readonly string[]): string | undefined {
  const here = (): string => pathOf(places) || wholeBody.field
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0') ? undefined : here()
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    if (!name.isWellFormed() || name.includes('\0')) return here()
    const found = illFormed(member, [...places, name])
    if (found !== undefined) return found
  }
  return undefined
}

const otherType = refuse(
  'invalid_request',
  '"Content-Type" must be application/json, with no parameter but charset=utf-8.',
  { field: 'Content-Type' },
)
const otherCoding = refuse('invalid_request', '"Content-Encoding" is not supported; send the JSON text as it is.', {
  field: 'Content-Encoding',
})

/** Why a body is not read: its head says that it is not JSON text as it is. */
export function notJson({ headers }: IncomingMessage): Refusal | undefined {
  const { 'content-type': type, 'content-encoding': coding = 'identity' } = headers
  if (type !== 'application/json' && !(type !== undefined && jsonType.test(type))) return otherType
  return /^identity$/i.test(coding) ? undefined : otherCoding
}
/** application/json, with no other parameter than charset=utf-8; a semicolon may stand alone (RFC 9110, 5.6.6). */
const jsonType = /^application\/json[ \t]*(?:(?:;[ \t]*)+(?:charset=("?)utf-8\1[ \t]*(?:;[ \t]*)*)?)?$/i
