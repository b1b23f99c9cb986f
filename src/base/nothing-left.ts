// A lack of our own: this machine, or this process, has no file, no memory, no port, no place in a server's line for one more connection, or mail, until one is given back.
// It says nothing about whoever was to be reached, so it is nobody's answer, and costs no message a try.
import { isIP } from 'node:net'

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN', 'ERR_MEMORY_ALLOCATION_FAILED']

export const isNothingLeft = (error: unknown): boolean =>
  error instanceof Error &&
  (codes.includes((error as NodeJS.ErrnoException).code) || isOutOfPorts(error) || isOutOfMemory(error))

/** What V8 says where the system gives it none for the bytes of a buffer. */
const isOutOfMemory = (error: Error): boolean =>
  error instanceof RangeError && error.message === 'Array buffer allocation failed'

/** Linux has no free port towards that address and port. Over IPv6 the same code means that this machine has no such address, for good. */
const isOutOfPorts = ({ code, address }: NodeJS.ErrnoException & { readonly address?: unknown }): boolean =>
  code === 'EADDRNOTAVAIL' && isIP(String(address)) === 4

/** Memory for so many bytes, whatever stands in it; undefined where the system has none. */
export function memoryFor(bytes: number): Buffer | undefined {
  try {
    return Buffer.allocUnsafeSlow(bytes)
  } catch (error) {
    if (isNothingLeft(error)) return undefined
    throw error
  }
}
