// Which addresses a stranger's DNS must not lead us to: everything that is not public unicast (RFC 6890, RFC 8190), and what looks like it but leads to
// the host of a virtual machine. Those of other clouds lie in the ranges below (169.254.169.254, 192.0.0.192, 100.100.100.200, fd00:ec2::254). Also looks at the
// IPv4 address inside of those IPv6 forms that carry one, which `net.BlockList` does not.
import { BlockList, isIP } from 'node:net'

const privateV4 = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10], // CGNAT
  ['127.0.0.0', 8],
  ['169.254.0.0', 16], // link-local, cloud metadata
  ['168.63.129.16', 32], // Azure: the agent of the host
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3], // multicast, reserved, broadcast
] as const)
  privateV4.addSubnet(network, bits, 'ipv4')

/** Only 2000::/3 is given out as public unicast; these lie inside of it and are not. */
const privateV6 = new BlockList()
for (const [network, bits] of [
  ['2001::', 23], // Teredo, ORCHID and the other protocol assignments
  ['2001:db8::', 32],
  ['2002::', 16], // 6to4: retired, and an IPv4 address in disguise
  ['3fff::', 20],
] as const)
  privateV6.addSubnet(network, bits, 'ipv6')

const publicV6 = new BlockList()
publicV6.addSubnet('2000::', 3, 'ipv6')
const nat64 = new BlockList()
nat64.addSubnet('64:ff9b::', 96, 'ipv6')
const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** True for everything but public unicast, and for what is no address at all. */
export function isPrivateAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return privateV4.check(address, 'ipv4')
    case 6:
      if (address.includes('%')) return true // a zone: link-local by its nature
      // A resolver with DNS64 answers like this for public hosts, so here the inner address decides.
      if (isTranslated(address)) return privateV4.check(innerV4(address), 'ipv4')
      return !publicV6.check(address, 'ipv6') || privateV6.check(address, 'ipv6')
    default:
      return true
  }
}

export function isLoopback(address: string): boolean {
  const family = isIP(address)
  return family !== 0 && loopback.check(address, family === 4 ? 'ipv4' : 'ipv6')
}

/** The IPv4 address that a NAT64 leads to by this one (RFC 6052 2.1); undefined where it is another kind. */
export const translatedV4 = (address: string): string | undefined =>
  isIP(address) === 6 && !address.includes('%') && isTranslated(address) ? innerV4(address) : undefined

const isTranslated = (address: string): boolean => nat64.check(address, 'ipv6')

/** The last 32 bits of an IPv6 address, dotted. The URL parser brings every spelling into one form. */
function innerV4(address: string): string {
  const groups = new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::').at(-1)?.split(':') ?? []
  const high = Number.parseInt(groups.at(-2) ?? '0', 16) || 0
  const low = Number.parseInt(groups.at(-1) ?? '0', 16) || 0
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
