// A lack of our own: this machine, or this process, has no file, no memory, no place in a server's line for one more connection, until one is given back.
// It says nothing about whoever was to be reached, so it is nobody's answer, and costs no message a try.

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN']

export const isNothingLeft = (error: unknown): boolean =>
  error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code)
