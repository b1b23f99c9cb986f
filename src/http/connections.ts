// How much one caller's address may hold: without that one machine takes all the connections that there are, and needs no key for it.
import type { Server, Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sourceOf } from '../base/guesses.ts'
import { among } from '../base/networks.ts'
import { limits } from '../config.ts'
import { callerAddress } from './caller-address.ts'
import { SlowRoom } from './slow-room.ts'

/** `most` from one IPv4 address, or one IPv6 /64. `free`: addresses and networks that speak for many, and are not counted. */
export function boundConnections(server: Server, most: number, free: readonly string[]): void {
  const isFree = among(free)
  const take = places(most)
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: address = '' } = socket
    if (isFree(address)) return
    const leave = take(address)
    if (leave === undefined) socket.destroy()
    else socket.once('close', leave)
  })
}

/** Who comes through a proxy has no connection of their own here: their requests under way are what takes its connections. False: no more. */
export function boundRequests(most: number): (request: FastifyRequest, reply: FastifyReply) => boolean {
  const take = places(most)
  return (request, reply) => {
    const address = callerAddress(request)
    if (address === request.socket.remoteAddress) return true
    const leave = take(address)
    if (leave !== undefined) reply.raw.once('close', leave)
    return leave !== undefined
  }
}

/**
 * Requests that one connection has sent ahead and that are not answered yet: few programs send any, and thousands would stand before everybody else's.
 * False: one more than may be.
 */
export function boundPipelines(most: number): (request: FastifyRequest, reply: FastifyReply) => boolean {
  const waiting = new WeakMap<Socket, number>()
  return ({ socket }, reply) => {
    const before = waiting.get(socket) ?? 0
    waiting.set(socket, before + 1)
    reply.raw.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1))
    return before < most
  }
}

/**
 * Answers that are made and not read yet. One may have 48 MiB (a mail that is all control characters, in JSON), and whoever reads none would have one
 * here for each request of each of their connections, for as long as a connection may be silent. Beyond the bound, in bytes, the largest of the owner that holds most is given up with its connection, as slow
 * bodies are (decision 0075): so who holds little loses none. Strangers are given nothing large that is made for them alone.
 */
export function boundAnswers(
  bytesMax: number,
): (request: FastifyRequest, reply: FastifyReply, payload: unknown) => void {
  const room = new SlowRoom(bytesMax)
  return ({ owner, socket }, { raw }, payload) => {
    const isStream = payload instanceof Readable
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0
    if (owner === '' || (bytes < limits.smallAnswerBytes && !isStream) || socket.destroyed) return
    const answer = { owner, giveWay: () => socket.destroy() }
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

/** One of `most` places of an address, and how it is left; undefined where all are taken. */
function places(most: number): (address: string) => (() => void) | undefined {
  const held = new Map<string, number>()
  return (address) => {
    const source = sourceOf(address)
    const before = held.get(source) ?? 0
    if (before >= most) return undefined
    held.set(source, before + 1)
    return () => {
      const left = (held.get(source) ?? 1) - 1
      if (left > 0) held.set(source, left)
      else held.delete(source)
    }
  }
}
