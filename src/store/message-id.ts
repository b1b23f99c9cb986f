// Message ids are UUIDv7 (RFC 9562 5.7) made here, so that a batch needs no order in its answers; their milliseconds follow the database's
// clock, which is asked now and then, so that a node with a wrong clock cannot put a message into a wrong partition.
import { randomFillSync } from 'node:crypto'
import type { MessageId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

const askEveryMs = 10_000
const clock = sql('app-clock', 'select (extract(epoch from app_now()) * 1000)::float8 ms')

export interface IdMaker {
  next(): MessageId
  /** The database's clock, as well as this node knows it. */
  now(): number
  /** Asks the database's clock. Called at the start and then every ten seconds; a failure keeps the last offset. */
  synchronize(): Promise<void>
  stop(): void
}

/** UUIDs come in order within a process as long as the clock does not go back. */
export function makeIds(db: Db): IdMaker {
  let offsetMs = 0
  let lastMs = 0
  let counter = 0
  const random = Buffer.alloc(8 * 1024)
  let used = random.length

  const synchronize = async () => {
    const before = Date.now()
    const [row] = await db.rows<{ ms: number }>(clock)
    if (row !== undefined) offsetMs = Math.round(row.ms - (before + Date.now()) / 2)
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
  return { next, now, synchronize, stop: () => clearInterval(timer) }
}
