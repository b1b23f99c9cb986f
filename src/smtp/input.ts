// What a peer has sent and a session has not yet used: joins pieces, cuts lines, and never copies a byte more often than a line is
// long. While a decision is pending pieces are only collected.

const LF = 10
const CR = 13
const nothing = Buffer.alloc(0)
/** Of these many pieces one is made: a piece of one byte costs hundreds. */
const piecesMax = 64

export class Input {
  readonly #lineBytesMax: number
  #bytes: Buffer = nothing
  #at = 0
  #arrived: Buffer[] = []
  #arrivedBytes = 0
  #overlong = false

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax
  }

  get heldBytes(): number {
    return this.#arrivedBytes + this.#bytes.length - this.#at
  }

  add(piece: Buffer): void {
    this.#arrived.push(piece)
    this.#arrivedBytes += piece.length
    if (this.#arrived.length === piecesMax) this.join()
  }

  /** Makes one buffer of what is left and what has come. */
  join(): void {
    const [first] = this.#arrived
    if (first === undefined) return
    const rest = this.#bytes.subarray(this.#at)
    this.#bytes = rest.length === 0 && this.#arrived.length === 1 ? first : Buffer.concat([rest, ...this.#arrived])
    this.#at = 0
    this.#arrived = []
    this.#arrivedBytes = 0
  }

  drop(): void {
    this.#bytes = nothing
    this.#at = 0
    this.#arrived = []
    this.#arrivedBytes = 0
  }

  /** The next line without its CR LF, or what is wrong with it; undefined while its end has not come. */
  line(): Buffer | 'bare' | 'overlong' | undefined {
    const from = this.#at
    const end = this.#bytes.indexOf(LF, from)
    if (end < 0) {
      if (this.#bytes.length - from <= this.#lineBytesMax + 1) return undefined
      this.#overlong = true
      this.#at = this.#bytes.length - 1 // the last byte stays: it may be the CR before the LF to come
      return undefined
    }
    this.#at = end + 1
    const overlong = this.#overlong || end - 1 - from > this.#lineBytesMax
    this.#overlong = false
    // Only CR LF ends a line: whoever sends another end reads other lines than we do (RFC 5321 2.3.8).
    if (end === from || this.#bytes[end - 1] !== CR) return 'bare'
    return overlong ? 'overlong' : this.#bytes.subarray(from, end - 1)
  }

  /** At most so many bytes; none when nothing is there. */
  take(bytesMax: number): Buffer {
    const piece = this.#bytes.subarray(this.#at, this.#at + bytesMax)
    this.#at += piece.length
    return piece
  }

  /** Gives everything to `read`, which says where it stopped, or -1 where it used all. True when it stopped. */
  feed(read: (bytes: Buffer, from: number) => number): boolean {
    const end = read(this.#bytes, this.#at)
    this.#at = end < 0 ? this.#bytes.length : end
    return end >= 0
  }
}
