// How much one caller's address may hold: otherwise one machine could take every connection that there is, without any key.
import type { Server, Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { afterPoll } from '../base/after-poll.ts'
import { among, sourceOf } from '../base/networks.ts'
import { Tally } from '../base/tally.ts'
import { callerAddress } from './caller-address.ts'

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

/** A caller behind a proxy has no connection of its own here: its requests under way take the proxy's. False: no more. */
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
 * Node closes a connection that was silent for its time at once, also where this process stood still meanwhile and a request lies before it unread: its caller
 * would hear of nothing but a reset, and not know whether that mail was accepted.
 */
export function closeSilentOnes(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const heardBytes = socket.bytesRead
    void afterPoll().then(() => socket.bytesRead === heardBytes && socket.destroy())
  })
}

/** One of `most` places of an address, and how it is left; undefined where all are taken. */
function places(most: number): (address: string) => (() => void) | undefined {
  const held = new Tally()
  return (address) => {
    const source = sourceOf(address)
    if (held.of(source) >= most) return undefined
    held.add(source)
    return () => held.take(source)
  }
}
