// Whose request this is: the peer's address or, where the peer is a proxy that is trusted, what it says of whoever stands behind it
// (`X-Forwarded-For`; the rightmost address that is no such proxy: what stands left of it can be made up).
import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Whether an address is among these addresses and networks. What is no address never is. */
export function among(entries: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    if (bits === undefined) list.addAddress(address, familyOf(address))
    else list.addSubnet(address, Number(bits), familyOf(address))
  }
  return (given) => {
    const address = withoutPort(given)
    return isIP(address) !== 0 && list.check(address, familyOf(address))
  }
}

export function callerAddress({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string {
  const address = withoutPort(ip)
  // A proxy may know of nobody (`unknown`): then it speaks for all of them.
  return isIP(address) === 0 ? (socket.remoteAddress ?? '') : address
}

/** Some proxies write the port, too (`192.0.2.1:40000`, `[2001:db8::1]:40000`): each connection would be a caller of its own. */
function withoutPort(address: string): string {
  return /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([^:]*):\d+$/.exec(address)?.[1] ?? address
}
