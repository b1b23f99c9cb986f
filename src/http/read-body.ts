// Reads a request's body into one buffer, bounded for each request and for all large ones together: beyond that they wait, unread, and
// after a while the answer is 503, so that memory stays bounded however many large messages arrive (decisions D, attack Q7).
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ByteRoom } from '../base/byte-room.ts'
import { release } from '../base/release.ts'
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
const tooSlow = refuse(
  'service_unavailable',
  'The body came too slowly, and others were waiting; nothing was accepted. Send it again.',
  { retryAfterSeconds: 3 },
)
const cutShort = refuse('invalid_request', 'The request ended before its body was complete; send it again.')

/** The memory that large requests may hold together, from before they are read until they are answered. */
export function roomForLargeBodies(): ByteRoom {
  return new ByteRoom({
    bytesMax: limits.largeRequestsBytesMax,
    overtakenBytesMax: limits.largeRequestsBytesMax / 4,
    shareBytesMax: limits.largeRequestsOfWorkspaceBytesMax,
    waitMs: limits.largeRequestWaitMs,
    waitingMax: limits.largeRequestsWaitingMax,
  })
}

/** Of posts to feeds, apart: anybody may begin one, since its signature is over its body. */
export function roomForFeeds(): ByteRoom {
  return new ByteRoom({
    bytesMax: limits.feedsBytesMax,
    overtakenBytesMax: limits.feedsBytesMax / 4,
    shareBytesMax: limits.feedsOfCallerBytesMax,
    waitMs: limits.largeRequestWaitMs,
    waitingMax: limits.largeRequestsWaitingMax,
  })
}

export interface Body {
  readonly bytes: Buffer
  /** How much of the room for large bodies it holds: to be given back when the request is answered. */
  readonly heldBytes: number
}

/** The declared length; undefined when chunked. Node has checked that it is a number. */
export function declaredLength(incoming: IncomingMessage): number | undefined {
  if (incoming.headers['transfer-encoding'] !== undefined) return undefined
  return Number(incoming.headers['content-length'] ?? 0)
}

/** The sender holds its body back until it hears that it is wanted; of HTTP/1.0 this must be ignored (RFC 9110 10.1.1). */
export function waitsForContinue({ headers, httpVersionMinor }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersionMinor > 0
}

/**
 * `owner` is whose share of the room a large body takes, and a small one that does not come at once. Until there is room, nothing more is read, so that the sender waits too; a caller
 * that waits for `100 Continue` has not even begun.
 */
export async function readBody(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  room: ByteRoom,
  owner: string,
  most: number = limits.requestBytesMax,
): Promise<Body | Refusal> {
  const length = declaredLength(incoming)
  if (length !== undefined && length > most) return tooLarge
  const heldBytes = length !== undefined && length > limits.largeRequestBytes ? length : 0
  if (heldBytes > 0 && !(await taken(incoming, room, owner, heldBytes))) return crowded
  if (waitsForContinue(incoming)) outgoing.writeContinue()
  return collect(incoming, room, owner, heldBytes, most)
}

/** Waits for room unless the caller leaves. */
async function taken(incoming: IncomingMessage, room: ByteRoom, owner: string, bytes: number): Promise<boolean> {
  const gone = new AbortController()
  const leave = (): void => gone.abort()
  incoming.once('close', leave)
  try {
    return await room.take(owner, bytes, gone.signal)
  } finally {
    incoming.off('close', leave)
  }
}

function collect(
  incoming: IncomingMessage,
  room: ByteRoom,
  owner: string,
  takenBytes: number,
  most: number,
): Promise<Body | Refusal> {
  if (incoming.destroyed && !incoming.readableEnded) {
    room.give(owner, takenBytes)
    return Promise.resolve(cutShort)
  }
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const length = declaredLength(incoming) ?? limits.largeRequestBytes
    let heldBytes = takenBytes
    // A large body goes straight to its place, so that it is never held twice. What is not written to takes no memory.
    let place = heldBytes > 0 ? Buffer.allocUnsafeSlow(heldBytes) : undefined
    let size = 0
    let done = false
    let waits = false
    let seconds = 0
    let seenBytes = 0
    const end = (answer: Body | Refusal): void => {
      if (done) return
      done = true
      clearInterval(watch)
      incoming.off('data', onData).off('end', onEnd).off('close', onCut).off('error', onCut)
      if ('refused' in answer) room.give(owner, heldBytes)
      resolve(answer)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size > most) return end(tooLarge)
      if (place !== undefined) {
        chunk.copy(place, size - chunk.length)
        release(chunk)
      } else {
        chunks.push(chunk)
      }
      if (size > Math.max(heldBytes, limits.largeRequestBytes)) grow()
    }
    /** A chunked body that grows large takes room in two steps: most are large, and few as large as any may be. */
    const grow = (): void => {
      const whole = size > limits.chunkedRequestBytes ? most : Math.min(most, limits.chunkedRequestBytes)
      const more = whole - heldBytes
      incoming.off('data', onData).pause()
      waits = true
      void taken(incoming, room, owner, more).then((got) => {
        waits = false
        if (done) return got ? room.give(owner, more) : undefined
        if (!got) return end(crowded)
        heldBytes = whole
        // The untouched rest of it takes no memory.
        place ??= Buffer.allocUnsafeSlow(most)
        let at = 0
        for (const chunk of chunks.splice(0)) at += chunk.copy(place, at)
        incoming.on('data', onData).resume()
      })
    }
    /**
     * Each second that a body does not end: a small one counts from now on, so that many which are held back take no memory that nobody counts; a large
     * one gives its room to those who wait when it hardly moves.
     */
    const look = (): void => {
      if (waits) return
      if (heldBytes === 0) {
        if (!room.takeAtOnce(owner, length)) return end(crowded)
        heldBytes = length
      } else if (++seconds % limits.slowRequestSeconds === 0) {
        if (size - seenBytes < limits.slowRequestBytes && room.waiting > 0) return end(tooSlow)
        seenBytes = size
      }
    }
    const watch = incoming.complete ? undefined : setInterval(look, 1_000)
    const onEnd = (): void => {
      if (heldBytes > size) {
        room.give(owner, heldBytes - size)
        heldBytes = size
      }
      const [first] = chunks
      const small = (): Buffer => (chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, size))
      end({ bytes: place?.subarray(0, size) ?? small(), heldBytes })
    }
    const onCut = (): void => end(cutShort)
    incoming.on('data', onData).once('end', onEnd).once('close', onCut).once('error', onCut)
  })
}
