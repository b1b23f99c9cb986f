// A lack of our own: this machine, or this process, has no file, no memory, no port, no place in a server's line for one more connection, until one is given back.
// It says nothing about whoever was to be reached, so it is nobody's answer, and costs no message a try.
import { isIP } from 'node:net'

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN']

export const isNothingLeft = (error: unknown): boolean =>
  error instanceof Error && (codes.includes((error as NodeJS.ErrnoException).code) || isOutOfPorts(error))

/** Linux has no free port towards that address and port. Over IPv6 the same code means that this machine has no such address, for good. */
const isOutOfPorts = ({ code, address }: NodeJS.ErrnoException & { readonly address?: unknown }): boolean =>
  code === 'EADDRNOTAVAIL' && isIP(String(address)) === 4
