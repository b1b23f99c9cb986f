// Message ids are UUIDv7 (RFC 9562 5.7) made here, so that a batch needs no order in its answers; their milliseconds follow the database's
// clock, which is asked now and then, and when this node's was set, so that a node with a wrong clock cannot put a message into a wrong partition.
import { randomFillSync } from 'node:crypto'
import { doneFor } from '../base/turns.ts'
import type { MessageId } from '../domain/message.ts'
import { answeredWithin, sql, type Db } from './database.ts'

const askEveryMs = 10_000
/** How far this node's clock may go from the one that nobody sets before it is taken for set, or the machine for having slept. */
const strayMsMax = 1_000
const clock = sql('app-clock', 'select (extract(epoch from app_now()) * 1000)::float8 ms')

export interface IdMaker {
  next(): MessageId
  /** To be awaited before `next`: asks the database's clock where this node's was set since it was asked last. Rejects where it does not answer: a wrong date stays. */
  sure(): Promise<void>
  /** The database's clock, as well as this node knows it. */
  now(): number
  /** Asks the database's clock. Called at the start and then every ten seconds; a failure keeps the last offset. */
  synchronize(): Promise<void>
  stop(): void
}

/** UUIDs come in order within a process as long as neither clock goes back. */
export function makeIds(db: Db): IdMaker {
  let offsetMs = 0
  let apartMs = 0
  let asking: Promise<void> | undefined
  let lastMs = 0
  let counter = 0
  const random = Buffer.alloc(8 * 1024)
  let used = random.length

  const apart = () => Date.now() - performance.now()
  const synchronize = async () => {
    const before = Date.now()
    const apartBefore = apart()
    const [row] = await db.rows<{ ms: number }>(clock)
    if (row === undefined) return
    // The database said so at some moment in between, and our clock cuts milliseconds off. What may be right stays: an answer that was long on its way would
    // put ids back behind those before.
    const [least, most] = [row.ms - Date.now() - 1, row.ms - before]
    offsetMs = Math.round(Math.min(Math.max(offsetMs, least), most))
    apartMs = apartBefore // set meanwhile: it will be asked again
  }
  const sure = async () => {
    if (Math.abs(apart() - apartMs) <= strayMsMax) return
    // For all who wait, so in the turn of none of them.
    await (asking ??= answeredWithin(strayMsMax, doneFor('', synchronize)).finally(() => {
      asking = undefined
    }))
  }
  const timer = setInterval(() => void synchronize().catch(() => undefined), askEveryMs).unref()

  const now = () => Date.now() + offsetMs
  const next = (): MessageId => {
    if (used === random.length) {
      randomFillSync(random)
      used = 0
    }
    const ms = now()
    if (ms === lastMs) counter = (counter + 1) & 0xfff
    else {
      lastMs = ms
      counter = random.readUInt16BE(used) & 0x3ff // room to count up within the millisecond
    }
    const time = ms.toString(16).padStart(12, '0')
    const high = ((random[used] ?? 0) & 0x3f) | 0x80
    const tail = random.toString('hex', used + 1, used + 8)
    used += 8
    return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, '0')}-${high.toString(16)}${tail.slice(0, 2)}-${tail.slice(2)}` as MessageId
  }
  return { next, sure, now, synchronize, stop: () => clearInterval(timer) }
}

/** When a message got this id: its first 48 bits count milliseconds (RFC 9562, version 7). */
export const timeOfId = (id: string): Date => new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16))

/** The least id of an instant, as `uuid_floor` makes it. */
export function idFloor(at: Date): string {
  const ms = Math.max(0, at.getTime()).toString(16).padStart(12, '0')
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7000-8000-000000000000`
}

/** Before and behind all ids, whatever they are of. */
export const leastId = '00000000-0000-0000-0000-000000000000'
export const greatestId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
