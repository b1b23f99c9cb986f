// What an operator asked for and cannot have: one sentence, shown as it is. And what operators name things by.
import { limits } from '../config.ts'

export class Mistake extends Error {
  override readonly name = 'Mistake'
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function isUuid(text: string): boolean {
  return uuid.test(text)
}

/** The id as the database wants it. */
export function parseId(text: string, what: string): string {
  if (!isUuid(text))
    throw new Mistake(`"${text}" is not the id of a ${what}: an id looks like 0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d.`)
  return text.toLowerCase()
}

/** A name for people: without control characters, and not endless. */
export function parseName(text: string, what: string): string {
  const name = text.trim()
  if (name === '' || name.length > limits.nameCharactersMax || /\p{C}/u.test(name))
    throw new Mistake(
      `The name of a ${what} has 1 to ${limits.nameCharactersMax} characters and no control characters.`,
    )
  return name
}
