// The content of the message that a session is taking, by DATA or by BDAT: begins it, reads it from the input, and says when it
// is complete.
import { ChunkReader, DataReader, type Content } from './content.ts'
import type { Input } from './input.ts'
import type { Reply } from './reply.ts'

export type Taken =
  /** Complete, or spoiled: `content.trouble` says. */
  | { readonly kind: 'message'; readonly content: Content }
  /** One chunk of several. */
  | { readonly kind: 'chunk' }
  /** A chunk that may not come: its octets were read and thrown away. */
  | { readonly kind: 'refused'; readonly refusal: Reply }

interface Chunk {
  remaining: number
  readonly last: boolean
  readonly refusal: Reply | undefined
}

export class Intake {
  readonly #newContent: () => Content
  #data: DataReader | undefined
  #chunks: ChunkReader | undefined
  #chunk: Chunk | undefined
  #bytes = 0

  constructor(newContent: () => Content) {
    this.#newContent = newContent
  }

  /** All that was ever read here. */
  get bytes(): number {
    return this.#bytes
  }

  /** The message has begun to come in chunks. */
  get isChunked(): boolean {
    return this.#chunks !== undefined
  }

  beginData(): void {
    this.#data = new DataReader(this.#newContent())
  }

  /** The octets come whether we want them or not: `refusal` says that we do not. */
  beginChunk(bytes: number, last: boolean, refusal: Reply | undefined): void {
    if (refusal === undefined) this.#chunks ??= new ChunkReader(this.#newContent())
    this.#chunk = { remaining: bytes, last, refusal }
  }

  /** Undefined while more must come. */
  read(input: Input): Taken | undefined {
    const before = input.heldBytes
    const taken = this.#chunk === undefined ? this.#readData(input) : this.#readChunk(this.#chunk, input)
    this.#bytes += before - input.heldBytes
    return taken
  }

  /** Forgets the message and whatever of it has come. */
  forget(): void {
    this.#data?.content.release()
    this.#chunks?.content.release()
    this.#leave()
  }

  /** Lets go of the content, which somebody else has now. */
  #leave(): void {
    this.#data = undefined
    this.#chunks = undefined
    this.#chunk = undefined
  }

  #readData(input: Input): Taken | undefined {
    const reader = this.#data
    if (reader === undefined || !input.feed((bytes, from) => reader.read(bytes, from))) return undefined
    this.#leave()
    return { kind: 'message', content: reader.content }
  }

  #readChunk(chunk: Chunk, input: Input): Taken | undefined {
    const piece = input.take(chunk.remaining)
    chunk.remaining -= piece.length
    if (chunk.refusal === undefined) this.#chunks?.read(piece)
    if (chunk.remaining > 0) return undefined
    this.#chunk = undefined
    if (chunk.refusal !== undefined || this.#chunks === undefined)
      return chunk.refusal && { kind: 'refused', refusal: chunk.refusal }
    const { content } = this.#chunks
    if (chunk.last) this.#chunks.end()
    if (!chunk.last && content.trouble === undefined) return { kind: 'chunk' }
    this.#leave()
    return { kind: 'message', content }
  }
}
