// Values that stand in many shapes.
import { Type } from 'typebox'
import type { Static, TSchema } from 'typebox'

export const uuid = (description: string) =>
  Type.String({ format: 'uuid', description, examples: ['0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d'] })
export const time = (description: string) =>
  Type.String({ format: 'date-time', description, examples: ['2026-11-21T09:30:00.000Z'] })

/**
 * An object whose member names are anybody's. Not `Type.Record`: its pattern for names is `^.*$`, and a dot matches no line end, so that a member with
 * one in its name was checked by nobody and left out of answers.
 */
export const pairs = <Value extends TSchema>(value: Value, options: object = {}) =>
  Type.Unsafe<Record<string, Static<Value>>>(Type.Object({}, { ...options, additionalProperties: value }))
