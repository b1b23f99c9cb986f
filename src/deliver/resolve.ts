// Which hosts take a domain's mail: MX in order of preference, the domain itself where it has none (RFC 5321 5.1), null MX
// (RFC 7505). Every failure is a typed trouble, because what DNS says decides between trying again and giving up (decisions B).
import { isIP } from 'node:net'
import { limits } from '../config.ts'
import type { Trouble } from '../domain/attempt.ts'
import { systemAddresses } from '../base/addresses.ts'
import type { Dns, DnsAnswer } from '../base/dns.ts'
import { isPrivateAddress } from '../base/private-address.ts'
import { remembered } from '../base/remembered.ts'
import { someOf } from './reachability.ts'

export interface MailHost {
  readonly host: string
  readonly address: string
  /** The MX records and this address, or the alias that led to it, were validated, as far as the resolver is to be believed. */
  readonly secure: boolean
  /** What `host` is an alias of, as far as that was validated, or `host` itself. */
  readonly canonical: string
}
export type DnsTrouble = Extract<Trouble, 'dns_failure' | 'nxdomain' | 'null_mx' | 'no_mail_host' | 'private_mx'>
export type Resolved =
  | { readonly hosts: readonly MailHost[]; readonly keepMs: number }
  | { readonly trouble: DnsTrouble; readonly keepMs: number }

export interface MailResolver {
  /** In the order in which they are to be tried; hosts of equal preference in a new order each time. */
  mailHosts(domain: string): Promise<Resolved>
  /** A relay's addresses: the operator named it, so private ones count, and a name that is not found is no reason to fail mail. */
  relayHosts(host: string): Promise<Resolved>
}

export interface ResolverSettings {
  readonly allowPrivate: boolean
  /** Without servers of the operator's, relays are found the system's way, which knows /etc/hosts and container names. */
  readonly ownServers: boolean
  readonly random?: () => number
}

export function makeResolver(dns: Dns, settings: ResolverSettings): MailResolver {
  const { allowPrivate, ownServers, random = Math.random } = settings

  const mailHosts = async (domain: string): Promise<Resolved> => {
    const exchanges = await findExchanges(dns, domain, random)
    if ('trouble' in exchanges) return exchanges
    const found = await Promise.all(exchanges.names.map((name) => findAddresses(dns, name, exchanges.secure)))
    return mailHostsOf(exchanges.names, found, allowPrivate, exchanges)
  }

  const findRelayHosts = async (host: string): Promise<Resolved> => {
    if (isIP(host) !== 0) return literal(host, host)
    if (host === 'localhost' && ownServers) return literal(host, '127.0.0.1')
    const found = ownServers ? await findAddresses(dns, host, false) : await lookUp(host)
    const resolved = mailHostsOf([host], [found], true, { secure: false, keepMs: limits.mailHostsKeptMsMax })
    return 'hosts' in resolved ? resolved : { trouble: 'dns_failure', keepMs: 0 }
  }

  return {
    mailHosts,
    relayHosts: remembered(findRelayHosts, { keepMs: ({ keepMs }) => keepMs, most: limits.mailHostsKeptMax }),
  }
}

const literal = (host: string, address: string): Resolved => ({
  hosts: [{ host, address, secure: false, canonical: host }],
  keepMs: limits.mailHostsKeptMsMax,
})

interface Exchanges {
  readonly names: readonly string[]
  readonly secure: boolean
  readonly keepMs: number
}

/** The names of a domain's mail hosts, best first; equal preferences shuffled (RFC 5321 5.1). */
async function findExchanges(
  dns: Dns,
  domain: string,
  random: () => number,
): Promise<Exchanges | Extract<Resolved, { trouble: DnsTrouble }>> {
  const { kind, records, secure, keepMs } = await dns.ask(domain, 'MX')
  if (kind === 'not_found') return { trouble: 'nxdomain', keepMs }
  if (kind === 'failure') return { trouble: 'dns_failure', keepMs }
  const exchanges = records.flatMap((record) =>
    record.type === 'MX' ? [{ priority: record.data.preference ?? 0, exchange: record.data.exchange }] : [],
  )
  if (exchanges.length === 0) return { names: [domain], secure, keepMs } // the implicit MX
  // A lone "." refuses all mail. Beside others it is a mistake, and skipped.
  const named = exchanges.filter(({ exchange }) => exchange !== '' && exchange !== '.')
  if (named.length === 0) return { trouble: 'null_mx', keepMs }
  const names = named
    .filter(({ exchange }) => isHostName(exchange))
    .map((record) => ({ ...record, lot: random() }))
    .sort((one, other) => one.priority - other.priority || one.lot - other.lot)
    .map(({ exchange }) => exchange.toLowerCase())
  if (names.length === 0) return { trouble: 'no_mail_host', keepMs }
  return { names: [...new Set(names)].slice(0, limits.mxHostsMax), secure, keepMs }
}

interface Addresses {
  readonly addresses: readonly { readonly address: string; readonly secure: boolean }[]
  readonly canonical: string
  /** True when the name may have addresses that we could not learn. */
  readonly failed: boolean
  /** For as long as what was learnt lasts. */
  readonly keepMs: number
}

/**
 * A signed alias that leads out of the signed zones: the name itself can have TLSA records all the same, and then they count (RFC 7672
 * 2.2.2). Asked only where validated MX records named the host, so `named`.
 */
async function isSignedAlias(dns: Dns, host: string, named: boolean, led: DnsAnswer): Promise<boolean> {
  if (!named || led.kind !== 'found' || led.secure || led.canonical === host) return false
  const { kind, secure } = await dns.ask(host, 'CNAME')
  return kind === 'found' && secure
}

/** IPv4 first: receivers refuse it less often for want of a reputation or a reverse name. */
async function findAddresses(dns: Dns, host: string, named: boolean): Promise<Addresses> {
  const [four, six] = await Promise.all([dns.ask(host, 'A'), dns.ask(host, 'AAAA')])
  const aliased = await isSignedAlias(dns, host, named, four.kind === 'found' ? four : six)
  const of = (answer: DnsAnswer) =>
    answer.records.flatMap((record) =>
      record.type === 'A' || record.type === 'AAAA' ? [{ address: record.data, secure: answer.secure || aliased }] : [],
    )
  return {
    addresses: [...of(four), ...of(six)],
    canonical: aliased ? host : four.kind === 'found' ? four.canonical : six.canonical,
    failed: four.kind === 'failure' || six.kind === 'failure',
    keepMs: Math.min(...[four, six].flatMap(({ kind, keepMs }) => (kind === 'failure' ? [] : keepMs))),
  }
}

async function lookUp(host: string): Promise<Addresses> {
  const { addresses, failed } = await systemAddresses(host)
  return {
    addresses: addresses.map((address) => ({ address, secure: false })),
    canonical: host,
    failed,
    keepMs: limits.mailHostsKeptMsMax,
  }
}

/** Hosts and their addresses in order, or why there is none. A failure beats a "never": more may be known later. */
function mailHostsOf(
  names: readonly string[],
  found: readonly Addresses[],
  allowPrivate: boolean,
  by: Pick<Exchanges, 'secure' | 'keepMs'>,
): Resolved {
  const keepMs = Math.min(by.keepMs, ...found.map((answer) => answer.keepMs))
  const hosts = names.flatMap((host, index) => {
    const { addresses = [], canonical = host } = found[index] ?? {}
    const reachable = addresses.filter(({ address }) => allowPrivate || !isPrivateAddress(address))
    const some = someOf(reachable, limits.addressesPerHostMax)
    return some.map(({ address, secure }) => ({ host, address, secure: by.secure && secure, canonical }))
  })
  const failed = found.some((answer) => answer.failed)
  if (hosts.length > 0) return { hosts, keepMs: failed ? keptWithout(hosts, keepMs) : keepMs }
  if (failed) return { trouble: 'dns_failure', keepMs: 0 }
  return { trouble: found.some((answer) => answer.addresses.length > 0) ? 'private_mx' : 'no_mail_host', keepMs }
}

/**
 * Name servers that never answer for AAAA, or for a backup host, are many, and each mail would wait for their silence. But with IPv6 alone, which not
 * every machine has, the rest is wanted at once.
 */
function keptWithout(hosts: readonly MailHost[], keepMs: number): number {
  return hosts.some(({ address }) => isIP(address) === 4) ? Math.min(keepMs, limits.mailHostsWantingMs) : 0
}

/** Underscores and the like exist in the wild; an address or control characters in place of a name do not count. */
function isHostName(name: string): boolean {
  return name.length <= 253 && /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(name) && isIP(name) === 0
}
