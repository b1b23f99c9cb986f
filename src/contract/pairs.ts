// Objects whose member names are anybody's. Not `Type.Record`: its pattern for names is `^.*$`, and a dot matches no line end, so that a member with
// one in its name was checked by nobody and left out of answers.
import { Type } from 'typebox'
import type { Static, TSchema } from 'typebox'

export const pairs = <Value extends TSchema>(value: Value, options: object = {}) =>
  Type.Unsafe<Record<string, Static<Value>>>(Type.Object({}, { ...options, additionalProperties: value }))
