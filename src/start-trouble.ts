// What the operator reads when Posthorn cannot start, or cannot go on: one clear sentence.
import { Trouble, wordsOf } from './base/trouble.ts'
import { isDatabaseAway } from './store/database.ts'
import { awayWords } from './store/database-away.ts'

/** `plain`: the sentence says all there is to say, and nobody needs to know where in the code it came from. */
export interface Told {
  readonly sentence: string
  readonly plain: boolean
}

/** `embedded`: the database is our own, so no setting leads to it. */
export function toldOf(error: unknown, embedded: boolean): Told {
  const sentence = wordsOf(error)
  if (error instanceof Trouble) return { sentence, plain: true }
  // The system names the file; what has none is a connection.
  const { syscall, path }: Partial<NodeJS.ErrnoException> = error instanceof Error ? error : {}
  if (path === undefined && isDatabaseAway(error)) return { sentence: awayWords(error, embedded), plain: true }
  return { sentence, plain: syscall !== undefined }
}

/** The first question to the database: whatever comes back instead of an answer is about how it is reached. */
export const noDatabase = (cause: unknown, embedded: boolean): Trouble =>
  new Trouble(awayWords(cause, embedded), { cause })
