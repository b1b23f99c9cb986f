// Reads a request's body into one buffer, bounded for each request and for all together, so that memory stays bounded however many arrive: large
// ones wait, unread, and after a while the answer is 503 (decisions D, attack Q7); small ones count when they do not come at once.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ByteRoom } from '../base/byte-room.ts'
import type { Log } from '../base/log.ts'
import { memoryFor } from '../base/nothing-left.ts'
import { release } from '../base/release.ts'
import { withinMemory } from '../base/spare-memory.ts'
import { limits } from '../config.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import { SlowRoom, type SlowTransfer } from './slow-room.ts'

const crowded = refuse(
  'service_unavailable',
  'There is no room for another large message at this moment; nothing was accepted. Try again in a few seconds.',
  { retryAfterSeconds: 3 },
)
const tooSlow = refuse(
  'service_unavailable',
  'The body came too slowly, and others needed its room; nothing was accepted. Send it again.',
  { retryAfterSeconds: 3 },
)
const stopping = refuse(
  'service_unavailable',
  'The service is being stopped, and the body has not come whole; nothing was accepted. Send it again.',
  { retryAfterSeconds: 3 },
)
const cutShort = refuse('invalid_request', 'The request ended before its body was complete; send it again.', {
  field: 'body',
})

/** What bodies take: room for a large one, from before it is read until it is answered, and for a small one while it does not come. */
export interface BodyRooms {
  readonly large: ByteRoom
  readonly slow: SlowRoom
  /** On the clock of `performance.now()`: who is still sending then is sent away. A stop sets it. */
  readonly open: { until: number }
}

/** Of requests with a key or a session, whose owner is the workspace or the person. */
export function roomsOfCallers(log: Log): BodyRooms {
  return roomsOf(log, limits.largeRequestsBytesMax, limits.largeRequestsOfWorkspaceBytesMax)
}

/** Of posts to feeds, whose signature is over their body, and of those who sign in, apart: anybody may begin one. The owner is an address. */
export function roomsOfStrangers(log: Log): BodyRooms {
  return roomsOf(log, limits.feedsBytesMax, limits.feedsOfCallerBytesMax)
}

function roomsOf(log: Log, bytesMax: number, shareBytesMax: number): BodyRooms {
  const large = new ByteRoom({
    bytesMax,
    ...withinMemory(log),
    shareBytesMax,
    overtakenBytesMax: bytesMax / 4,
    waitMs: limits.largeRequestWaitMs,
    waitingMax: limits.largeRequestsWaitingMax,
  })
  return { large, slow: new SlowRoom(limits.slowRequestsBytesMax), open: { until: Infinity } }
}

/** How large a body may be, and what is said of a larger one. */
export interface BodyLimit {
  readonly bytesMax: number
  readonly tooLarge: Refusal
}
export const bodyLimit = (bytesMax: number, words: string): BodyLimit => ({
  bytesMax,
  tooLarge: refuse('payload_too_large', words),
})

export interface Body {
  readonly bytes: Buffer
  /** How much of the room for large bodies it holds: to be given back when the request is answered. */
  readonly heldBytes: number
}

/** Known from its head alone, before any of it is read. */
export const isTooLarge = (incoming: IncomingMessage, { bytesMax }: BodyLimit): boolean =>
  (declaredLength(incoming) ?? 0) > bytesMax

/** The declared length; undefined when chunked. Node has checked that it is a number. */
function declaredLength(incoming: IncomingMessage): number | undefined {
  if (incoming.headers['transfer-encoding'] !== undefined) return undefined
  return Number(incoming.headers['content-length'] ?? 0)
}

/** The sender holds its body back until it hears that it is wanted; of HTTP/1.0 this must be ignored (RFC 9110 10.1.1). */
function waitsForContinue({ headers, httpVersionMinor }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersionMinor > 0
}

/**
 * `owner` is whose share of the rooms the body takes. Until there is room for a large one, nothing more is read, so that the sender waits too; a
 * caller that waits for `100 Continue` has not even begun.
 */
export async function readBody(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  rooms: BodyRooms,
  owner: string,
  limit: BodyLimit,
): Promise<Body | Refusal> {
  if (isTooLarge(incoming, limit)) return limit.tooLarge
  const length = declaredLength(incoming)
  const heldBytes = length !== undefined && length > limits.largeRequestBytes ? length : 0
  if (heldBytes > 0 && !(await taken(incoming, rooms.large, owner, heldBytes))) return crowded
  // A large body goes straight to its place, so that it is never held twice. What is not written to takes no memory.
  const place = heldBytes > 0 ? memoryFor(heldBytes) : undefined
  if (heldBytes > 0 && place === undefined) {
    rooms.large.give(owner, heldBytes)
    return crowded
  }
  if (waitsForContinue(incoming)) outgoing.writeContinue()
  return collect(incoming, rooms, owner, place, limit)
}

/** Waits for room unless the caller leaves. */
async function taken(
  incoming: IncomingMessage,
  room: ByteRoom,
  owner: string,
  bytes: number,
  gone = new AbortController(),
): Promise<boolean> {
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
  { large, slow, open }: BodyRooms,
  owner: string,
  taking: Buffer | undefined,
  { bytesMax: most, tooLarge }: BodyLimit,
): Promise<Body | Refusal> {
  const takenBytes = taking?.length ?? 0
  if (incoming.destroyed && !incoming.readableEnded) {
    large.give(owner, takenBytes)
    if (taking !== undefined) release(taking)
    return Promise.resolve(cutShort)
  }
  return new Promise((resolve) => {
    const length = declaredLength(incoming) ?? limits.largeRequestBytes
    let heldBytes = takenBytes
    /** The first piece of a small body, which mostly is all of it. */
    let whole: Buffer | undefined
    let place = taking
    let size = 0
    let done = false
    let line: AbortController | undefined
    let seconds = 0
    let seenBytes = 0
    const asSlow: SlowTransfer = { owner, giveWay: () => end(tooSlow) }
    const end = (answer: Body | Refusal): void => {
      if (done) return
      done = true
      clearInterval(watch)
      line?.abort()
      slow.hold(asSlow, 0)
      incoming.off('data', onData).off('end', onEnd).off('close', onCut).off('error', onCut)
      if ('refused' in answer) {
        large.give(owner, heldBytes)
        if (place !== undefined) release(place)
      }
      resolve(answer)
    }
    /**
     * Into a place of so many bytes: else of as many again as have come, so that a small body holds no more than twice of it. False where there is no
     * memory for that: it has ended.
     */
    const move = (bytes = Math.max(size, Math.min(2 * size, length))): boolean => {
      const next = memoryFor(bytes)
      if (next === undefined) {
        end(crowded)
        return false
      }
      const from = place ?? whole
      from?.copy(next)
      if (from !== undefined) release(from)
      whole = undefined
      place = next
      return true
    }
    const onData = (chunk: Buffer): void => {
      const at = size
      size += chunk.length
      if (size > most) return end(tooLarge)
      if (place === undefined && at === 0) {
        whole = chunk
      } else {
        // Pieces are never kept as they come: one of a single byte takes a hundred.
        if ((place === undefined || size > place.length) && !move()) return
        chunk.copy(place as Buffer, at)
        release(chunk)
      }
      if (size > Math.max(heldBytes, limits.largeRequestBytes)) grow()
    }
    /** A chunked body that grows large takes room in two steps: most are large, and few as large as any may be. */
    const grow = (): void => {
      const step = size > limits.chunkedRequestBytes ? most : Math.min(most, limits.chunkedRequestBytes)
      const more = step - heldBytes
      incoming.off('data', onData).pause()
      line = new AbortController()
      void taken(incoming, large, owner, more, line).then((got) => {
        line = undefined
        if (done) return got ? large.give(owner, more) : undefined
        if (!got) return end(crowded)
        slow.hold(asSlow, 0)
        const isFirst = heldBytes === 0
        heldBytes = step
        // The untouched rest of it takes no memory.
        if (isFirst && !move(most)) return
        incoming.on('data', onData).resume()
      })
    }
    /** Each second that a body does not end: a small one counts from now on, and a large one gives its room to those who wait when it hardly moves. */
    const look = (): void => {
      if (performance.now() > open.until) return end(stopping)
      if (heldBytes === 0) {
        // A piece as it came may keep all that came with it.
        if (whole !== undefined && !move()) return
        slow.hold(asSlow, place?.length ?? 0)
      } else if (line === undefined && ++seconds % limits.slowRequestSeconds === 0) {
        if (size - seenBytes < limits.slowRequestBytes && large.waiting > 0) return end(tooSlow)
        seenBytes = size
      }
    }
    const watch = incoming.complete ? undefined : setInterval(look, 1_000)
    const onEnd = (): void => {
      if (heldBytes > size) {
        large.give(owner, heldBytes - size)
        heldBytes = size
      }
      end({ bytes: place?.subarray(0, size) ?? whole ?? Buffer.alloc(0), heldBytes })
    }
    const onCut = (): void => end(cutShort)
    incoming.on('data', onData).once('end', onEnd).once('close', onCut).once('error', onCut)
  })
}
