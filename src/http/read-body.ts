// Reads a request's body into one buffer, bounded for each request and for all large ones together: beyond that the
// answer is 503 before more is read, so that memory stays bounded however many large messages arrive (decisions D,
// attack Q7).
import type { IncomingMessage, ServerResponse } from 'node:http'
import { limits } from '../config.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'

export const tooLarge = refuse(
  'payload_too_large',
  'The body is larger than 48 MiB; send fewer or smaller attachments, at most 20 MB in total.',
)
const crowded = refuse(
  'service_unavailable',
  'Too many large messages are being received at this moment; nothing was accepted. Try again in a few seconds.',
  { retryAfterSeconds: 3 },
)
const cutShort = refuse('invalid_request', 'The request ended before its body was complete; send it again.')

/** The memory that large requests may hold together, from before they are read until they are answered. */
export class LargeBodies {
  #heldBytes = 0

  /** False when there is no room. What is taken must be given back. */
  take(bytes: number): boolean {
    if (this.#heldBytes + bytes > limits.largeRequestsBytesMax) return false
    this.#heldBytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#heldBytes -= bytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }
}

export interface Body {
  readonly bytes: Buffer
  /** How much of the room for large bodies it holds: give it back when the request is answered. */
  readonly heldBytes: number
}

/** The declared length; undefined when chunked. Node has checked that it is a number. */
export function declaredLength(incoming: IncomingMessage): number | undefined {
  if (incoming.headers['transfer-encoding'] !== undefined) return undefined
  return Number(incoming.headers['content-length'] ?? 0)
}

export function readBody(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  large: LargeBodies,
): Promise<Body | Refusal> {
  const length = declaredLength(incoming)
  if (length !== undefined && length > limits.requestBytesMax) return Promise.resolve(tooLarge)
  let heldBytes = 0
  if (length !== undefined && length > limits.largeRequestBytes) {
    if (!large.take(length)) return Promise.resolve(crowded)
    heldBytes = length
  }
  if (incoming.headers.expect !== undefined) outgoing.writeContinue()

  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    // A large body of known size goes straight to its place, so that it is never held twice.
    const place = length !== undefined && heldBytes > 0 ? Buffer.allocUnsafeSlow(length) : undefined
    let size = 0
    const done = (answer: Body | Refusal): void => {
      incoming.off('data', onData).off('end', onEnd).off('close', onCut).off('error', onCut)
      if ('refused' in answer && heldBytes > 0) large.give(heldBytes)
      resolve(answer)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size > limits.requestBytesMax) return done(tooLarge)
      // A chunked body that grows large may become as large as any: it counts as the largest until its end.
      if (size > limits.largeRequestBytes && heldBytes === 0) {
        if (!large.take(limits.requestBytesMax)) return done(crowded)
        heldBytes = limits.requestBytesMax
      }
      if (place === undefined) chunks.push(chunk)
      else chunk.copy(place, size - chunk.length)
    }
    const onEnd = (): void => {
      if (length === undefined && heldBytes > 0) {
        large.give(heldBytes - size)
        heldBytes = size
      }
      const [first] = chunks
      const bytes = place ?? (chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, size))
      done({ bytes, heldBytes })
    }
    const onCut = (): void => done(cutShort)
    incoming.on('data', onData).once('end', onEnd).once('close', onCut).once('error', onCut)
  })
}
