// How many connections one caller's address may hold: without that one machine takes all that there are, and needs no key for it.
import type { Server, Socket } from 'node:net'
import { sourceOf } from '../base/guesses.ts'
import { among } from './caller-address.ts'

/** `most` from one IPv4 address, or one IPv6 /64. `free`: addresses and networks that speak for many, and are not counted. */
export function boundConnections(server: Server, most: number, free: readonly string[]): void {
  const isFree = among(free)
  const held = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: address = '' } = socket
    if (isFree(address)) return
    const source = sourceOf(address)
    const before = held.get(source) ?? 0
    if (before >= most) return void socket.destroy()
    held.set(source, before + 1)
    socket.once('close', () => {
      const left = (held.get(source) ?? 1) - 1
      if (left > 0) held.set(source, left)
      else held.delete(source)
    })
  })
}
