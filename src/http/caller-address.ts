// Whose request this is: the peer's address or, where the peer is a proxy that is trusted, what it says of whoever stands behind it
// (`X-Forwarded-For`; the rightmost address that is no such proxy: what stands left of it can be made up).
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { among } from '../base/networks.ts'

/** Whether an address, perhaps with a port, is one of these proxies. */
export function oneOf(proxies: readonly string[]): (address: string) => boolean {
  const isOne = among(proxies)
  return (address) => isOne(withoutPort(address))
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
