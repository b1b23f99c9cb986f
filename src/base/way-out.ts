// Whether this machine has a way to the world: asked of the kernel's routing table alone, so that no packet is sent and nobody hears of it. Where it has
// none (an interface that is down, a lease that ran out), no host is to blame for being out of reach.
import { createSocket } from 'node:dgram'

/** Two root name servers, one for each family: whoever has a default route has one to them. */
const farAway = [
  ['udp4', '198.41.0.4'],
  ['udp6', '2001:503:ba3e::2:30'],
] as const

/** The last: whose kernel has no IPv6 at all. */
const noWayCodes: readonly unknown[] = ['ENETUNREACH', 'EHOSTUNREACH', 'ENETDOWN', 'EADDRNOTAVAIL', 'EAFNOSUPPORT']

/** That there is no way to somebody, be it that this machine has none, or that a router said so. */
export const isNoWay = (code: unknown): boolean => noWayCodes.includes(code)

/** Also where that cannot be told. */
export async function isThereAWayOut(): Promise<boolean> {
  const ways = await Promise.all(
    farAway.map(
      ([type, address]) =>
        new Promise<boolean>((resolve) => {
          const socket = createSocket(type)
          const settle = (isThere: boolean) => {
            socket.on('error', () => undefined).close()
            resolve(isThere)
          }
          socket.once('error', ({ code }: NodeJS.ErrnoException) => settle(!isNoWay(code)))
          socket.once('connect', () => settle(true))
          // Of a datagram socket this is a look at the routes, and nothing more.
          socket.connect(53, address)
        }),
    ),
  )
  return ways.includes(true)
}
