// A page of a list, or of something that goes on.

export interface Page<T> {
  readonly items: readonly T[]
  /** Where the next one begins; left out at the end. */
  readonly next?: string
}
