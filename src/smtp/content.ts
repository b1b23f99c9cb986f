// A message's content on its way in, from DATA (RFC 5321 4.5.2) or BDAT (RFC 3030): un-stuffed, bounded, and strict. Only
// CR LF . CR LF ends DATA, and one bare CR or LF anywhere spoils the whole message (SMTP smuggling), but for reports to us, while the reader stays in
// step to the true end. Cutting the input anywhere gives the same result.
import { memoryFor } from '../base/nothing-left.ts'
import { joined, release } from '../base/release.ts'
import { limits } from '../config.ts'
import type { ContentRoom, Holder } from './content-room.ts'

const LF = 10
const CR = 13
const DOT = 46
const lineEnd = Buffer.from('\r\n')

/** Smaller pieces are gathered in blocks of this size, or a client of one-byte packets would cost a hundred times its bytes. */
const blockBytes = 4096
/** Large content is gathered in these: the allocator returns them to the system whole, and would keep the memory of 16 KB pieces. */
const largeBlockBytes = 1024 * 1024

/** As much of a message as has come so far. What is too large or spoiled is counted, but not kept. */
export class Content implements Holder {
  readonly #bytesMax: number
  readonly #room: ContentRoom
  readonly #owner: string | undefined
  readonly #takesBareLineEnds: boolean
  #pieces: Buffer[] = []
  #bytes = 0
  #taken = 0
  #block: Buffer | undefined
  #blockUsed = 0
  #bareLineEnds = false
  #noRoom = false

  constructor(bytesMax: number, room: ContentRoom, owner?: string, takesBareLineEnds = false) {
    this.#bytesMax = bytesMax
    this.#room = room
    this.#owner = owner
    this.#takesBareLineEnds = takesBareLineEnds
  }

  /** Why it cannot be accepted. In a fixed order, so that the answer does not depend on how the input was cut. */
  get trouble(): 'bareLineEnds' | 'tooLarge' | 'noRoom' | undefined {
    if (this.#bareLineEnds) return 'bareLineEnds'
    if (this.#bytes > this.#bytesMax) return 'tooLarge'
    return this.#noRoom ? 'noRoom' : undefined
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Of the room. */
  get heldBytes(): number {
    return this.#taken
  }

  /** Somebody else needs the room more. */
  giveWay(): void {
    this.#noRoom = true
    // Nobody has seen them, and whoever is let in instead needs their memory now.
    for (const piece of this.#pieces) if (piece.length === largeBlockBytes) release(piece)
    this.release()
  }

  /** A bare CR or LF has come. What was kept goes with the piece that spoils it. */
  spoil(): void {
    this.#bareLineEnds = !this.#takesBareLineEnds
  }

  keep(piece: Buffer): void {
    this.#bytes += piece.length
    if (piece.length === 0) return
    if (this.trouble !== undefined) return this.release()
    if (!this.#room.takeFor(this, piece.length, this.#owner)) return this.giveWay()
    this.#taken += piece.length
    // The first piece is most often the whole message. A small part of what was read is copied: it would hold all that came with it.
    const isLarge = this.#bytes > limits.smtpBlockBytes
    const isMostOfIt = 2 * piece.length >= piece.buffer.byteLength
    if (!isLarge && isMostOfIt && (piece.length >= blockBytes || this.#pieces.length === 0)) {
      this.#closeBlock()
      this.#pieces.push(piece)
    } else this.#gather(piece, isLarge ? largeBlockBytes : blockBytes)
  }

  /** What it is held in. */
  pieces(): readonly Buffer[] {
    this.#closeBlock()
    return this.#pieces
  }

  /** The content, in one piece from here on: it is never held twice. Belongs to the caller until `release`. */
  whole(): Buffer {
    this.#room.leave(this)
    const [first = Buffer.alloc(0), ...more] = this.pieces()
    const isLarge = this.#bytes > limits.smtpBlockBytes
    const whole = more.length === 0 ? first : isLarge ? joined(this.#pieces) : Buffer.concat(this.#pieces)
    this.#pieces = [whole]
    return whole
  }

  /** Forgets the bytes and gives their room back. */
  release(): void {
    this.#room.leave(this)
    this.#room.give(this.#taken, this.#owner)
    this.#taken = 0
    this.#pieces = []
    this.#block = undefined
    this.#blockUsed = 0
  }

  #gather(piece: Buffer, size: number): void {
    let from = 0
    while (from < piece.length) {
      this.#block ??= memoryFor(size)
      if (this.#block === undefined) return this.giveWay()
      const copied = piece.copy(this.#block, this.#blockUsed, from)
      from += copied
      this.#blockUsed += copied
      if (this.#blockUsed === this.#block.length) this.#closeBlock()
    }
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#pieces.push(this.#block.subarray(0, this.#blockUsed))
    this.#block = undefined
    this.#blockUsed = 0
  }
}

type Place = 'lineStart' | 'inLine' | 'afterCr' | 'afterDot' | 'afterDotCr'

/** Reads the bytes after a 354 into `content`. */
export class DataReader {
  readonly content: Content
  #place: Place = 'lineStart'

  constructor(content: Content) {
    this.content = content
  }

  /**
   * Reads `chunk` from `from` on; gives where the next command begins, or -1 when the end has not come. Un-stuffs in place: what
   * it has read of `chunk` is its own.
   */
  read(chunk: Buffer, from: number): number {
    let place = this.#place
    let bare = false
    // [from, to) is content, closed up; [start, at) follows it and has not been moved yet.
    let to = from
    let start = from
    let end = -1
    for (let at = from; at < chunk.length; at++) {
      if (place === 'inLine') while (at < chunk.length && (chunk[at] as number) > CR) at++
      const byte = chunk[at]
      if (byte === undefined) break
      if (place === 'lineStart' && byte === DOT) {
        to = moveDown(chunk, to, start, at)
        start = at + 1
        place = 'afterDot'
      } else if (place === 'afterDot' && byte === CR) {
        start = at + 1
        place = 'afterDotCr'
      } else if (byte === LF && place === 'afterDotCr') {
        start = chunk.length
        end = at + 1
        break
      } else if (byte === LF && place === 'afterCr') place = 'lineStart'
      else {
        if (byte === LF || place === 'afterCr' || place === 'afterDotCr') bare = true
        place = byte === CR ? 'afterCr' : 'inLine'
      }
    }
    this.#place = place
    if (bare) this.content.spoil()
    this.content.keep(chunk.subarray(from, moveDown(chunk, to, start, chunk.length)))
    return end
  }
}

function moveDown(chunk: Buffer, to: number, start: number, end: number): number {
  if (start >= end) return to
  if (to !== start) chunk.copyWithin(to, start, end)
  return to + end - start
}

/** Reads the octets of BDAT chunks into `content`. */
export class ChunkReader {
  readonly content: Content
  #last = LF

  constructor(content: Content) {
    this.content = content
  }

  read(piece: Buffer): void {
    let last = this.#last
    let bare = false
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at] as number
      // A CR and a LF come together, or not at all.
      if ((byte === LF) !== (last === CR)) bare = true
      last = byte
    }
    this.#last = last
    if (bare) this.content.spoil()
    this.content.keep(piece)
  }

  /** No more chunks come. A last line without its end gets one: lines are what DATA and DKIM know. */
  end(): void {
    if (this.#last === CR) this.content.spoil()
    else if (this.#last !== LF) this.content.keep(lineEnd)
  }
}
