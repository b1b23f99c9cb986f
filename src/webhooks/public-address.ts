// Where a webhook may go: public HTTPS and nothing else (decisions G, attacks 4). The URL is judged in the form that it has after parsing, in
// which every spelling of an address is one; every address that its name leads to is judged, and one that is not public spoils them all.
// POSTHORN_ALLOW_PRIVATE_WEBHOOKS opens this for local development; it changes these tests and nothing else.
import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { findAddresses, systemAddresses } from '../base/addresses.ts'
import { isPrivateAddress, translatedV4 } from '../base/private-address.ts'
import { limits, type Settings } from '../config.ts'

type TargetRules = Pick<Settings, 'POSTHORN_DNS_SERVERS' | 'POSTHORN_ALLOW_PRIVATE_WEBHOOKS'>

export type TargetTrouble = 'dns_failure' | 'blocked_address'
export type Found = { readonly addresses: readonly string[] } | { readonly trouble: TargetTrouble }

export interface Targets {
  /** The URL in its one form, or what is wrong with it, to stand behind `"url" `; its name's addresses are still to be judged. */
  parse(text: string): URL | string
  /** May a connection be open to this address? Asked of every one that is. */
  isAllowed(address: string): boolean
  /** All addresses of a host, each of them allowed. */
  find(host: string): Promise<Found>
  /** Whether any name server says anything, be it a no. */
  namesAnswer(): Promise<boolean>
  /** Private addresses count too. */
  readonly anywhere: boolean
}

/** Asks the system's name servers, those of this moment: resolvers are cheap. */
const askSystem = (): Resolver => new Resolver({ timeout: limits.dnsQueryMs, tries: limits.dnsTries })

/**
 * Names are strangers' and may be silent. They are asked at the name servers themselves: the system's own look-up has as many threads as the
 * machine has cores, half of them at a time, and a few silent names would keep everybody's webhooks waiting. For local development it is used,
 * since it knows /etc/hosts and container names.
 */
export function makeTargets(
  rules: TargetRules,
  asking: () => Resolver = askSystem,
  ownInterfaces: typeof networkInterfaces = networkInterfaces,
): Targets {
  const { POSTHORN_DNS_SERVERS: dnsServers, POSTHORN_ALLOW_PRIVATE_WEBHOOKS: allowPrivate } = rules
  const resolver = (): Resolver => {
    const dns = asking()
    if (dnsServers.length > 0) dns.setServers(dnsServers)
    return dns
  }
  const addressesOf = (host: string) => {
    if (allowPrivate && (dnsServers.length === 0 || isLocalhost(host))) return systemAddresses(host)
    return findAddresses(resolver(), host)
  }
  const isAllowed = (address: string): boolean =>
    isIP(address) !== 0 && (allowPrivate || (isPublicTarget(address) && !isAmong(ownInterfaces(), address)))
  return {
    parse: (text) => parseTarget(text, allowPrivate),
    isAllowed,
    find: async (host) => {
      if (isIP(host) !== 0) return isAllowed(host) ? { addresses: [host] } : { trouble: 'blocked_address' }
      // RFC 6761 6.3: this machine, whatever the name servers say; the setting may have been on when the address was set.
      if (!allowPrivate && isLocalhost(host)) return { trouble: 'blocked_address' }
      const { addresses: found } = await addressesOf(host)
      // A resolver with DNS64 tells each IPv4 address of a host a second time (RFC 6147 5.1.7): by that one a machine that has IPv6 alone gets there.
      const isSaidTwice = (address: string): boolean => found.includes(translatedV4(address) ?? '')
      const addresses = found.filter((address) => !isSaidTwice(address))
      if (addresses.length === 0) return { trouble: 'dns_failure' }
      if (!addresses.every(isAllowed)) return { trouble: 'blocked_address' }
      return { addresses: [...addresses, ...found.filter(isSaidTwice)] }
    },
    // What every one of them knows.
    namesAnswer: () =>
      resolver()
        .resolveSoa('.')
        .then(
          () => true,
          ({ code }: NodeJS.ErrnoException) => !silences.includes(code),
        ),
    anywhere: allowPrivate,
  }
}

/** Nobody is there, or says anything; and nothing was left here to ask with. */
const silences: readonly unknown[] = ['ETIMEOUT', 'ECONNREFUSED', 'ECANCELLED']

/** NAT64 carries any IPv4 address inside; no receiver needs to be named by one. */
const isNat64 = (address: string): boolean => /^64:ff9b:/i.test(address)

function isPublicTarget(address: string): boolean {
  return !isPrivateAddress(address) && !isNat64(address)
}

/** This machine's own public addresses: what listens on them may trust whoever comes from here. */
function isAmong(interfaces: ReturnType<typeof networkInterfaces>, address: string): boolean {
  return Object.values(interfaces).some((all) => all?.some((each) => each.address === address) === true)
}

const isLocalhost = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')

function parseTarget(text: string, allowPrivate: boolean): URL | string {
  if (text.length > limits.webhookUrlCharactersMax)
    return `must have at most ${limits.webhookUrlCharactersMax} characters`
  // The parser would mend these, and another one would mend them in another way.
  // oxlint-disable-next-line no-control-regex
  if (/[\s\\\u0000-\u001f\u007f]/.test(text)) return 'must not contain spaces, backslashes or control characters'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    return 'must be an https URL such as https://example.com/posthorn'
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password'
  if (url.hash !== '' || text.includes('#')) return 'must not contain a fragment ("#")'
  url.hostname = url.hostname.replace(/\.$/, '')
  if (allowPrivate) return url
  if (url.protocol !== 'https:')
    return 'must begin with https:// (http only for local development, where POSTHORN_ALLOW_PRIVATE_WEBHOOKS=true is set for the service, and for the command that sets the address)'
  if (url.port !== '') return 'must use port 443, which needs no mention'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0) return 'must name its host; an IP address is not accepted'
  if (isLocalhost(host) || !host.includes('.')) return 'must name a public host'
  return url
}
