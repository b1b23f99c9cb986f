// Which hosts take a domain's mail: MX in order of preference, the domain itself where it has none (RFC 5321 5.1), null MX
// (RFC 7505). Every failure is a typed trouble, because what DNS says decides between trying again and giving up (decisions B).
// What was found is kept for a short while, and askers for the same name share one question.
import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { limits } from '../config.ts'
import type { Trouble } from '../domain/attempt.ts'
import { findAddresses, meaningOf, systemAddresses, type Addresses } from '../base/addresses.ts'
import { isPrivateAddress } from '../base/private-address.ts'

export interface MailHost {
  readonly host: string
  readonly address: string
}
export type DnsTrouble = Extract<Trouble, 'dns_failure' | 'nxdomain' | 'null_mx' | 'no_mail_host' | 'private_mx'>
export type Resolved = { readonly hosts: readonly MailHost[] } | { readonly trouble: DnsTrouble }

export interface MailResolver {
  /** In the order in which they are to be tried. */
  mailHosts(domain: string): Promise<Resolved>
  /** A relay's addresses: the operator named it, so private ones count, and a name that is not found is no reason to fail mail. */
  relayHosts(host: string): Promise<Resolved>
  /** Gives up the questions under way. */
  cancel(): void
}

export interface ResolverSettings {
  /** `ip` or `ip:port`; none: the system's. */
  readonly servers: readonly string[]
  readonly allowPrivate: boolean
  readonly queryMs?: number
  readonly tries?: number
  readonly keptMs?: number
  readonly random?: () => number
}

export function makeResolver(settings: ResolverSettings): MailResolver {
  const { servers, allowPrivate, queryMs = limits.dnsQueryMs, tries = limits.dnsTries, random = Math.random } = settings
  const dns = new Resolver({ timeout: queryMs, tries })
  if (servers.length > 0) dns.setServers(servers)

  const findMailHosts = async (domain: string): Promise<Resolved> => {
    const exchanges = await findExchanges(dns, domain, random)
    if ('trouble' in exchanges) return exchanges
    const found = await Promise.all(exchanges.names.map((name) => findAddresses(dns, name)))
    return mailHostsOf(exchanges.names, found, allowPrivate)
  }

  const findRelayHosts = async (host: string): Promise<Resolved> => {
    if (isIP(host) !== 0) return { hosts: [{ host, address: host }] }
    if (host === 'localhost' && servers.length > 0) return { hosts: [{ host, address: '127.0.0.1' }] }
    // Without servers of our own the system's way, which knows /etc/hosts and container names.
    const found = servers.length > 0 ? await findAddresses(dns, host) : await systemAddresses(host)
    const resolved = mailHostsOf([host], [found], true)
    return 'hosts' in resolved ? resolved : { trouble: 'dns_failure' }
  }

  const keptMs = settings.keptMs ?? limits.mailHostsKeptMs
  return {
    mailHosts: remembered(findMailHosts, keptMs),
    relayHosts: remembered(findRelayHosts, keptMs),
    cancel: () => dns.cancel(),
  }
}

/** The names of a domain's mail hosts, best first; equal preferences shuffled (RFC 5321 5.1). */
async function findExchanges(
  dns: Resolver,
  domain: string,
  random: () => number,
): Promise<{ readonly names: readonly string[] } | { readonly trouble: DnsTrouble }> {
  let records
  try {
    records = await dns.resolveMx(domain)
  } catch (error) {
    const answer = meaningOf(error)
    if (answer === 'no_data') return { names: [domain] } // the implicit MX
    return { trouble: answer === 'not_found' ? 'nxdomain' : 'dns_failure' }
  }
  if (records.length === 0) return { names: [domain] }
  // A lone "." refuses all mail. Beside others it is a mistake, and skipped.
  const named = records.filter((record) => record.exchange !== '' && record.exchange !== '.')
  if (named.length === 0) return { trouble: 'null_mx' }
  const names = named
    .filter((record) => isHostName(record.exchange))
    .map((record) => ({ ...record, lot: random() }))
    .sort((one, other) => one.priority - other.priority || one.lot - other.lot)
    .map((record) => record.exchange.toLowerCase())
  if (names.length === 0) return { trouble: 'no_mail_host' }
  return { names: [...new Set(names)].slice(0, limits.mxHostsMax) }
}

/** Hosts and their addresses in order, or why there is none. A failure beats a "never": more may be known later. */
function mailHostsOf(names: readonly string[], found: readonly Addresses[], allowPrivate: boolean): Resolved {
  const hosts = names.flatMap((host, index) =>
    (found[index]?.addresses ?? [])
      .filter((address) => allowPrivate || !isPrivateAddress(address))
      .slice(0, limits.addressesPerHostMax)
      .map((address) => ({ host, address })),
  )
  if (hosts.length > 0) return { hosts }
  if (found.some((answer) => answer.failed)) return { trouble: 'dns_failure' }
  return { trouble: found.some((answer) => answer.addresses.length > 0) ? 'private_mx' : 'no_mail_host' }
}

/** Underscores and the like exist in the wild; an address or control characters in place of a name do not count. */
function isHostName(name: string): boolean {
  return name.length <= 253 && /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(name) && isIP(name) === 0
}

/** Askers at the same time share one question; what was found (never a trouble) is kept for `keptMs`. */
function remembered(find: (name: string) => Promise<Resolved>, keptMs: number): (name: string) => Promise<Resolved> {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<Resolved> }>()
  const asking = new Map<string, Promise<Resolved>>()

  const ask = async (name: string): Promise<Resolved> => {
    try {
      const answer = await find(name)
      if ('hosts' in answer && keptMs > 0) {
        kept.delete(name)
        const oldest = kept.size >= limits.mailHostsKeptMax ? kept.keys().next().value : undefined
        if (oldest !== undefined) kept.delete(oldest)
        kept.set(name, { until: performance.now() + keptMs, answer: Promise.resolve(answer) })
      }
      return answer
    } finally {
      asking.delete(name)
    }
  }

  return (name) => {
    const known = kept.get(name)
    if (known !== undefined && performance.now() < known.until) return known.answer
    const underWay = asking.get(name)
    if (underWay !== undefined) return underWay
    const answer = ask(name)
    asking.set(name, answer)
    return answer
  }
}
