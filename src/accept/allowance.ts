// What the examination of one submission may cost, so that a small file that unpacks to a big one costs us little: entries, unpacked bytes,
// depth, ratio, time. What goes beyond is not examined, and what is not examined is not accepted (attack Q9).
import { limits } from '../config.ts'

/** The file cannot be examined within the limits. The words complete "It ...". */
export class Beyond extends Error {
  override readonly name = 'Beyond'
}

export const tooManyFiles = (): Beyond =>
  new Beyond(`holds more than ${limits.scanEntriesMax.toLocaleString('en-US')} files`)

/** The time is over: nobody knows whether it is clean. */
export class OutOfTime extends Error {
  override readonly name = 'OutOfTime'
}

export class Allowance {
  readonly #until: number
  #entries = 0
  #bytes = 0
  /** By place: where the view ended that reached farthest. */
  readonly #visited = {
    zip: new WeakMap<ArrayBufferLike, Map<number, number>>(),
    tar: new WeakMap<ArrayBufferLike, Map<number, number>>(),
  }

  constructor(ms: number) {
    this.#until = performance.now() + ms
  }

  /** To be asked wherever something is done once more for what a file holds, also when nothing comes of it. */
  inTime(): void {
    if (performance.now() > this.#until) throw new OutOfTime('the examination took too long')
  }

  /** One more file inside another. */
  entry(): void {
    this.inTime()
    if (++this.#entries > limits.scanEntriesMax) throw tooManyFiles()
  }

  /** False where the header at this place in the memory was visited before, by whatever view of it that had what stands before `end`. */
  visit(header: 'zip' | 'tar', bytes: Buffer, at: number, end = bytes.length): boolean {
    const visited = this.#visited[header].get(bytes.buffer) ?? new Map<number, number>()
    this.#visited[header].set(bytes.buffer, visited)
    const place = bytes.byteOffset + at
    const reached = visited.get(place) ?? -1
    if (reached >= bytes.byteOffset + Math.min(end, bytes.length)) return false
    visited.set(place, Math.max(reached, bytes.byteOffset + bytes.length))
    return true
  }

  /** How much one entry may unpack to. */
  get entryBytesMax(): number {
    return Math.min(limits.scanEntryBytesMax, limits.scanBytesMax - this.#bytes)
  }

  /** So many bytes came out of so many. */
  unpacked(bytes: number, packedBytes: number): void {
    this.#bytes += bytes
    if (bytes > limits.scanEntryBytesMax || this.#bytes > limits.scanBytesMax) this.tooMuch()
    if (bytes > limits.scanRatioFreeBytes && bytes > packedBytes * limits.scanRatioMax)
      throw new Beyond(`unpacks to more than ${limits.scanRatioMax} times its size`)
  }

  tooMuch(): never {
    const megabytes = Math.round(limits.scanEntryBytesMax / 1024 / 1024)
    throw new Beyond(
      `unpacks to more than is examined (${megabytes} MiB for each file, ${Math.round(limits.scanBytesMax / 1024 / 1024)} MiB together)`,
    )
  }
}
