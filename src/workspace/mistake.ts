// What somebody asked for and cannot have. It is found out within transactions, which must not be committed then, so this refusal is thrown; what
// acceptance refuses is returned, as everywhere else. And what people name things by.
import { isUuid, parseUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { isWorkspaceGone } from '../store/workspaces.ts'

/** Its words are one sentence, shown as it is. */
export class Mistake extends Error {
  override readonly name = 'Mistake'
  readonly refusal: Refusal

  constructor(words: string, { code = 'invalid_request', ...more }: Partial<Omit<Refusal, 'refused' | 'words'>> = {}) {
    super(words)
    this.refusal = refuse(code, words, more)
  }
}

/**
 * Why what was thrown cannot be had; undefined of a fault. Whoever adds something to a workspace may be let in while it is there, and wait for the last step
 * of its removal: wherever that meets them, they hear why.
 */
export function mistakeOf(error: unknown): Mistake | undefined {
  if (error instanceof Mistake) return error
  return isWorkspaceGone(error)
    ? new Mistake('The workspace was removed meanwhile.', { code: 'insufficient_scope' })
    : undefined
}

/** What is not there, or belongs to another workspace: one answer for both. */
export const notThere = (what: string): Mistake =>
  new Mistake(`There is no such ${what} in your workspace.`, { code: 'not_found' })

export const noSuchMessage = (): Mistake =>
  new Mistake('No message with this id exists in your workspace.', { code: 'not_found' })

/** For what only a few may do at a time. */
export const busy = (what: string): Mistake =>
  new Mistake(`${what} at this moment; try again in a few seconds.`, {
    code: 'service_unavailable',
    retryAfterSeconds: 3,
  })

/** The id as the database wants it. */
export function parseId(text: string, what: string): string {
  const id = parseUuid(text)
  if (id !== undefined) return id
  throw new Mistake(`"${text}" is not the id of a ${what}: an id looks like 0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d.`)
}

/** Whom a list is searched for. */
export function parseRecipient(text: string): EmailAddress {
  const address = parseAddress(text.trim())
  if (address !== undefined) return address
  // `ann+news@` by hand in a URL has come as `ann news@`.
  const hint = parseAddress(text.trim().replace(' ', '+')) === undefined ? '' : ' In a URL write its + as %2B.'
  throw new Mistake(`"recipient" must be one whole e-mail address; "text" finds parts of one.${hint}`, {
    field: 'recipient',
  })
}

/** Between which a list is searched. */
export function checkTimes({ from, to }: { readonly from?: Date | undefined; readonly to?: Date | undefined }): void {
  if (from !== undefined && to !== undefined && from >= to)
    throw new Mistake('"from" must be before "to".', { field: 'from' })
}

/** Joiners are no tricks of the eye like the other invisible characters: Persian is not written without them, nor are some emoji. */
const unseen = /(?![\u200c\u200d])\p{C}/u

/** A name for people: without control characters, and not endless. */
export function parseName(text: string, what: string): string {
  const name = text.trim()
  // Counted as JSON Schema and PostgreSQL do: an emoji is one character.
  if (name === '' || Array.from(name).length > limits.nameCharactersMax || unseen.test(name))
    throw new Mistake(
      `The name of a ${what} has 1 to ${limits.nameCharactersMax} characters and no control or invisible characters.`,
      { field: 'name' },
    )
  return name
}

/** A command takes what looks like an id for one: a name must not. */
export function parseWorkspaceName(text: string): string {
  const name = parseName(text, 'workspace')
  if (isUuid(name)) throw new Mistake('A workspace cannot be named like an id.', { field: 'name' })
  return name
}
