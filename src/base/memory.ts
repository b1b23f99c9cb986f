// How much memory there is to work with.
import { totalmem } from 'node:os'

/** Below this the parts of a node make themselves small. */
const smallBytes = 2 * 1024 * 1024 * 1024

/** For V8's `--max-semi-space-size`, which a process may take two or three times: what it would like, on a small machine a quarter of it. */
export function nurseryMebibytes(wished: number, memoryBytes: number = usableMemory()): number {
  return memoryBytes < smallBytes * 0.9 ? wished / 4 : wished
}

/** What the machine has, or the container allows, in bytes. */
export function usableMemory(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}
