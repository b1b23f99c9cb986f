// How many connections one caller's address may hold: without that one machine takes all that there are, and needs no key for it.
import { BlockList, isIP, type Server, type Socket } from 'node:net'
import { sourceOf } from '../base/guesses.ts'

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** `most` from one IPv4 address, or one IPv6 /64. `free`: addresses and networks that speak for many, and are not counted. */
export function boundConnections(server: Server, most: number, free: readonly string[]): void {
  const uncounted = new BlockList()
  for (const entry of free) {
    const [address = '', bits] = entry.split('/')
    if (bits === undefined) uncounted.addAddress(address, familyOf(address))
    else uncounted.addSubnet(address, Number(bits), familyOf(address))
  }
  const held = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: address = '' } = socket
    if (uncounted.check(address, familyOf(address))) return
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
