// Whose address it is: one of a list of addresses and networks, as settings name them; one of a client, by whom guesses, connections and sessions are
// bounded.
import { BlockList, isIP, isIPv6 } from 'node:net'

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Whether an address is among these addresses and networks. What is no address never is. */
export function among(entries: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    if (bits === undefined) list.addAddress(address, familyOf(address))
    else list.addSubnet(address, Number(bits), familyOf(address))
  }
  return (address) => isIP(address) !== 0 && list.check(address, familyOf(address))
}

/** IPv4 by the address, IPv6 by its /64, which is what one customer of a provider has. */
export function sourceOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const groups = head.split(':')
  if (tail !== undefined) {
    const missing = 8 - groups.length - tail.split(':').length
    groups.push(...Array.from({ length: Math.max(missing, 0) }, () => '0'), ...tail.split(':'))
  }
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, '').toLowerCase() || '0')
    .join(':')
}
