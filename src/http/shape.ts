// Bodies and query strings of management endpoints become typed values, or a refusal that names the member: by the schema that the OpenAPI
// document publishes. Ids come out in lower case, times in UTC.
import type { Static, TObject, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { parseUuid } from '../base/uuid.ts'
import type { Refusal } from '../domain/refusal.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import { misshapen, withoutFormats, wrong } from './send-request.ts'

export type Reader<S extends TSchema> = (value: unknown) => { readonly value: Static<S> } | Refusal

interface Member {
  readonly type?: string
  readonly format?: string
}

export function makeReader<S extends TSchema>(schema: S): Reader<S> {
  const shape = Compile(withoutFormats(schema))
  const members = Object.entries((schema as TSchema & { properties?: Record<string, Member> }).properties ?? {})
  return (value) => {
    if (!shape.Check(value)) return misshapen(shape.Errors(value))
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
        if (time === undefined)
          return wrong(name, 'must be a time with a time zone such as 2026-11-21T09:30:00Z (RFC 3339)')
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
  return (value) => {
    const given: Record<string, unknown> = { ...(value as object) }
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
