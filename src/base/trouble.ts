// What keeps Posthorn from working that is nobody's bug: a busy port, a folder that cannot be written, a database that is away. The message
// is one sentence for the operator and says all there is to say; a stack beside it would only hide it.

/** An error's own words. Where a name has several addresses, each has an error of its own and the whole has no words. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || (error instanceof AggregateError ? wordsOf(error.errors[0]) : error.name)
}

/** Of things that failed each by itself: one error, with the words of all, each said once. */
export function together(failures: readonly unknown[]): unknown {
  const [first] = failures
  return failures.length === 1
    ? first
    : new AggregateError(failures, [...new Set(failures.map(wordsOf))].join('; '), { cause: first })
}

export class Trouble extends Error {
  override readonly name: string = 'Trouble'
}
