// How much memory there is to work with.
import { totalmem } from 'node:os'

/** What the machine has, or the container allows, in bytes. */
export function usableMemory(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}
