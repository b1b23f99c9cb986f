// The memory of answers that are made and not read yet. One may have 31 MB, and a client that reads none would keep one here for each request of each of
// its connections, for as long as a connection may be silent.
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import { SlowRoom, type SlowTransfer } from './slow-room.ts'

/**
 * Notes each answer that is made for somebody, until it is taken. Beyond `bytesMax` the largest of the owner that holds most is given up with its
 * connection (decision 0075), so that whoever holds little loses none. Strangers get nothing large that is made for them alone.
 */
export function boundAnswers(
  bytesMax: number,
): (request: FastifyRequest, reply: FastifyReply, payload: unknown) => void {
  const room = new SlowRoom(bytesMax)
  return ({ owner, socket }, { raw }, payload) => {
    const isStream = payload instanceof Readable
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0
    if (owner === '' || (bytes < limits.smallAnswerBytes && !isStream) || socket.destroyed) return
    const answer: SlowTransfer = { owner, giveWay: () => socket.destroy() }
    const hold = (held: number): void => room.hold(answer, Math.min(held, bytesMax))
    const end = (): void => {
      clearInterval(watch)
      hold(0)
    }
    // Of a stream it is what stands before the connection, and no more is made until that is taken. An answer behind another one of its connection never
    // hears that this is closed.
    const watch = setInterval(() => (socket.destroyed ? end() : hold(raw.writableLength)), 1_000)
    raw.once('finish', end).once('close', end)
    hold(bytes)
  }
}
