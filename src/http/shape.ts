// What a request brings, against the schema that the OpenAPI document publishes: it becomes a typed value, or a refusal that names the member.
// Management endpoints are read by their schemas alone: ids come out in lower case, times in UTC.
import type { Static, TObject, TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import type { TLocalizedValidationError } from 'typebox/error'
import { parseUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { closed } from '../contract/management/managed.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import { wholeBody } from './json-body.ts'

export type Reader<S extends TSchema> = (value: unknown) => { readonly value: Static<S> } | Refusal

interface Member {
  readonly type?: string
  readonly format?: string
}

export function makeReader<S extends TSchema>(schema: S): Reader<S> {
  const shape = Compile(withoutFormats(schema))
  const members = Object.entries((schema as TSchema & { properties?: Record<string, Member> }).properties ?? {})
  return (value) => {
    if (!shape.Check(value)) return misshapen(shape.Errors(value)[1])
    const clean: Record<string, unknown> = { ...(value as object) }
    for (const [name, { format }] of members) {
      const given = clean[name]
      if (typeof given !== 'string') continue
      if (format === 'uuid') {
        const id = parseUuid(given)
        if (id === undefined) return wrong(name, 'must be a UUID')
        clean[name] = id
      }
      if (format === 'date-time') {
        const time = parseDateTime(given)
        if (time === undefined) return wrong(name, mustBeTime)
        clean[name] = new Date(time).toISOString() // `Date` itself does not read a leap second
      }
    }
    return { value: clean as Static<S> }
  }
}

/** A query string holds texts: numbers are read where the schema has one. */
export function makeQueryReader<S extends TObject>(schema: S): Reader<S> {
  const read = makeReader(schema)
  const numbers = Object.entries(schema.properties as Record<string, Member>).flatMap(([name, { type }]) =>
    type === 'integer' ? [name] : [],
  )
  const known = Object.keys(schema.properties)
  const thereAre = known.length === 0 ? 'which takes none; remove it' : `which takes ${listed(known, 'and')}`
  return (value) => {
    const given: Record<string, unknown> = { ...(value as object) }
    const unknown = Object.keys(given).find((name) => !Object.hasOwn(schema.properties, name))
    if (unknown !== undefined) return wrong(shown(unknown), `is not a parameter of this request, ${thereAre}`)
    for (const name of numbers) {
      const text = given[name]
      if (typeof text === 'string' && /^\d{1,9}$/.test(text)) given[name] = Number(text)
    }
    const nul = Object.entries(given).find(
      ([, text]) => typeof text === 'string' && (text.includes('\0') || !text.isWellFormed()),
    )
    return nul === undefined ? read(given) : wrong(nul[0].slice(0, 64), 'must be well-formed text without U+0000')
  }
}

/** What an endpoint without parameters reads: one that it does not have must not look as if it had done something. */
export const noQuery = closed({})
const readNoQuery = makeQueryReader(noQuery)
export function unknownParameter(query: unknown): Refusal | undefined {
  const read = readNoQuery(query)
  return isRefusal(read) ? read : undefined
}

export const wrong = (field: string, sentence: string): Refusal =>
  refuse('invalid_request', `"${field}" ${sentence}.`, { field })

export const mustBeTime = 'must be a time with a time zone such as 2026-11-21T09:30:00Z (RFC 3339)'

/** The first disagreement with the schema, in plain words; the others say what else would have been right there. */
export function misshapen([error, ...others]: readonly TLocalizedValidationError[]): Refusal {
  if (error === undefined) throw new Error('the schema refused a body without a reason')
  const path = error.instancePath.slice(1).split('/').map(unescapePointer).join('.')
  switch (error.keyword) {
    case 'required': {
      const [name = ''] = error.params.requiredProperties
      return wrong(path === '' ? name : `${path}.${name}`, 'is missing; it is required')
    }
    case 'boolean': // the schema of an unknown member is `false`
      return wrong(shown(path), 'is not a member of this request; remove it or correct its spelling')
    case 'additionalProperties': {
      const name = error.params.additionalProperties[0] ?? ''
      return wrong(
        shown(path === '' ? name : `${path}.${name}`),
        'is not a member of this request; remove it or correct its spelling',
      )
    }
    case 'type': {
      const orNull = others.some((other) => isNullAt(error.instancePath, other)) ? ', or null' : ''
      if (path !== '') return wrong(shown(path), `must be ${typeWords(String(error.params.type))}${orNull}`)
      return refuse('invalid_request', 'The body must be a JSON object with the documented members.', wholeBody)
    }
    case 'minLength':
      return wrong(shown(path), isName(error, others) ? 'has an empty name' : 'must not be empty')
    case 'maxLength': {
      const subject = isName(error, others) ? 'must have a name of at most' : 'must have at most'
      return wrong(shown(path), `${subject} ${error.params.limit} characters`)
    }
    case 'maxProperties':
      return wrong(shown(path), `must have at most ${error.params.limit} members`)
    case 'minItems':
      return wrong(shown(path), `must have at least ${items(error.params.limit)}`)
    case 'maxItems':
      return wrong(shown(path), `must have at most ${items(error.params.limit)}`)
    case 'minimum':
      return wrong(shown(path), `must be at least ${error.params.limit}`)
    case 'maximum':
      return wrong(shown(path), `must be at most ${error.params.limit}`)
    case 'enum':
      return wrong(shown(path), `must be ${anyOf(error.params.allowedValues)}`)
    default:
      // A keyword that no schema of ours had when this was written; a test asks each.
      return wrong(shown(path), error.message)
  }
}

const typeWords = (type: string): string => `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
const isNullAt = (path: string, error: TLocalizedValidationError): boolean =>
  error.keyword === 'type' && error.instancePath === path && String(error.params.type) === 'null'
/** The error is of a member's name, not of its value. */
const isName = ({ instancePath }: TLocalizedValidationError, others: readonly TLocalizedValidationError[]): boolean =>
  others.some(
    (other) =>
      other.keyword === 'propertyNames' &&
      other.params.propertyNames.some((name) => instancePath === `${other.instancePath}/${escapePointer(name)}`),
  )
const items = (many: number): string => `${many} item${many === 1 ? '' : 's'}`

const anyOf = (values: readonly unknown[]): string =>
  values.length === 1 ? String(values[0]) : `one of ${listed(values, 'or')}`
/** All of them, as far as a sentence can hold. */
function listed(values: readonly unknown[], last: 'and' | 'or'): string {
  const names = values.slice(0, limits.valuesNamedMax).map(String)
  if (names.length < values.length) return `${names.join(', ')} and ${values.length - names.length} more`
  return names.length === 1 ? String(names[0]) : `${names.slice(0, -1).join(', ')} ${last} ${names.at(-1)}`
}

/** Names that a stranger chose are cut before they are repeated. */
const shown = (path: string): string => path.slice(0, 128)
const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')
const unescapePointer = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~')

/** Formats are for people to read; what they mean is for the parsers. */
export function withoutFormats<Schema extends TSchema>(schema: Schema): Schema {
  const strip = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(strip)
    const copy: Record<string, unknown> = Object.create(
      Object.getPrototypeOf(value) as object,
      Object.getOwnPropertyDescriptors(value),
    ) as Record<string, unknown>
    for (const [name, member] of Object.entries(value)) {
      if (name === 'format') delete copy[name]
      else copy[name] = strip(member)
    }
    return copy
  }
  return strip(schema) as Schema
}
