// The body of a send request, from bytes to typed values. Small ones are read where they arrive. Large ones are read in a thread
// (send-body-thread.ts), one after another: reading the worst body of 48 MiB takes a quarter of a second, and the event loop is never to be held
// up for more than 50 ms (attack Q11). Bytes are handed over, not copied.
import { createHash } from 'node:crypto'
import { Thread, ThreadTrouble } from '../base/thread.ts'
import { limits } from '../config.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import { readJson } from './json-body.ts'
import { liftStrings } from './lifted-strings.ts'
import type { Lifted } from './lifted-strings.ts'
import { parseSendRequest, plainBase64 } from './send-request.ts'
import type { SendRequest } from './send-request.ts'

export interface SendBody {
  readonly message: SendRequest
  /** SHA-256 over the raw bytes, hex. Undefined where it was not asked for. */
  readonly hash: string | undefined
}

/** What crosses into the thread. */
export interface BodyOrder {
  readonly bytes: Uint8Array
  readonly hashed: boolean
  readonly now: number
}
export type BodyAnswer = SendBody | Refusal

const busy = refuse(
  'service_unavailable',
  'Too many large messages are being read at this moment; nothing was accepted. Try again in a few seconds.',
  { retryAfterSeconds: 3 },
)

export class SendBodies {
  readonly #thread = new Thread<BodyOrder, BodyAnswer>({
    module: new URL('send-body-thread.ts', import.meta.url),
    name: 'large bodies',
    waitingMax: limits.largeRequestsWaitingMax,
    heapMegabytesMax: limits.bodyThreadHeapMegabytesMax,
  })
  readonly #now: () => number

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** A large body is handed over: afterwards `bytes` is empty. */
  async read(bytes: Buffer, hashed: boolean): Promise<BodyAnswer> {
    if (bytes.length <= limits.largeRequestBytes) return readSendBody(bytes, hashed, this.#now())
    try {
      const answer = await this.#thread.ask(() => {
        const whole = bytes.buffer as ArrayBuffer
        return { order: { bytes, hashed, now: this.#now() }, transfer: [whole] }
      }, limits.bodyReadMs)
      return isRefusal(answer) ? answer : { ...answer, message: withBuffers(answer.message) }
    } catch (error) {
      if (error instanceof ThreadTrouble) return busy
      throw error
    }
  }

  stop(): Promise<void> {
    return this.#thread.stop()
  }
}

/** Buffers become plain arrays of bytes on their way between threads. */
function withBuffers(message: SendRequest): SendRequest {
  const attachments = message.attachments.map((attachment) => {
    const { buffer, byteOffset, byteLength } = attachment.bytes
    return { ...attachment, bytes: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength) }
  })
  return { ...message, attachments }
}

export function readSendBody(bytes: Buffer, hashed: boolean, now: number): BodyAnswer {
  const json = readJson(bytes)
  if (isRefusal(json)) return json
  const message = parseSendRequest(json.value, now)
  return isRefusal(message) ? message : { message, hash: hashed ? hashOf(bytes) : undefined }
}

/**
 * The same for a large body, mostly without making text of it. It only ever says yes: what it does not take is read the ordinary way, so
 * that refusals are the same for both.
 */
export function readLargeSendBody(bytes: Buffer, hashed: boolean, now: number): BodyAnswer {
  return readLifted(bytes, hashed, now) ?? readSendBody(bytes, hashed, now)
}

function readLifted(bytes: Buffer, hashed: boolean, now: number): SendBody | undefined {
  const lifted = liftStrings(bytes)
  const json = readJson(lifted.rest)
  if (isRefusal(json)) return undefined
  let value: unknown
  try {
    value = restored(json.value, lifted, '')
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  const message = parseSendRequest(value, now, {
    decodedLength: (text) => (lifted.isMark(text) ? lifted.decodedLengthOf(text) : plainBase64.decodedLength(text)),
    decode: (text) => (lifted.isMark(text) ? lifted.decode(text) : plainBase64.decode(text)),
  })
  return isRefusal(message) ? undefined : { message, hash: hashed ? hashOf(bytes) : undefined }
}

/** With the strings back in their places, but for the files: those are decoded without becoming text. */
function restored(value: unknown, lifted: Lifted, path: string): unknown {
  if (typeof value === 'string')
    return lifted.isMark(value) && path !== '.attachments..contentBase64' ? lifted.textOf(value) : value
  if (Array.isArray(value)) return value.map((each) => restored(each, lifted, `${path}.`))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, restored(member, lifted, `${path}.${name}`)]),
  )
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
