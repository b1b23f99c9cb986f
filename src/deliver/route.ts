// Where a message goes next (decisions J): the sandbox on loopback, the recipient's mail hosts, or a relay; each as an ordered list of
// targets, with the rule for TLS decided here once. The simulator's domain goes to the sandbox on every installation.
import { limits } from '../config.ts'
import type { Route } from '../config.ts'
import { createHash } from 'node:crypto'
import type { TlsDemand } from '../domain/attempt.ts'
import { isSimulator } from '../domain/simulator.ts'
import type { EmailAddress } from '../mail/address.ts'
import type { DaneRule } from './dane-rfc7672.ts'
import { currentOwner } from '../base/turns.ts'
import { isLoopback } from '../base/private-address.ts'
import { providerOf } from './providers.ts'
import { remembered } from '../base/remembered.ts'
import type { DnsTrouble, MailHost, MailResolver } from './resolve.ts'
import type { TlsPolicies, TlsPolicy } from './tls-policy.ts'

export type RouteKind = Route['kind']

/**
 * `opportunistic`: TLS where offered, any certificate; clear text when TLS is broken, for a stranger who reads along is no worse than
 * no mail. `required`: STARTTLS or nothing. `implicit`: TLS from the first byte. `clear`: no TLS (the sandbox).
 */
export type TlsRule = 'opportunistic' | 'required' | 'implicit' | 'clear'

export interface Login {
  readonly user: string
  readonly password: string
}

/** One address to speak to. */
export interface Target {
  readonly host: string
  readonly address: string
  readonly port: number
  readonly tls: TlsRule
  /** The certificate must be valid for `host`. */
  readonly verify: boolean
  /** The certificate must be the one that signed DNS records name. */
  readonly dane?: DaneRule
  /** Certificates to trust instead of the system's (tests). */
  readonly trustedCa?: string
  /** Why clear text is no way out. */
  readonly tlsPolicy?: TlsDemand
  /** Whose manners count: the provider behind the host, or the relay itself. */
  readonly provider: string
  readonly login?: Login
  /** How many connections it is spoken to over at once: strangers get few, the operator's own relay more. */
  readonly connectionsMax: number
  /** Connections with the same key are interchangeable. Holds the login, so it is never logged. */
  readonly key: string
}

/** `tls_failed`: there are mail hosts, and the domain's own policy rules all of them out. */
export type Routed = { readonly targets: readonly Target[] } | { readonly trouble: DnsTrouble | 'tls_failed' }

export interface Router {
  /** The route that a recipient really takes. */
  kindOf(route: Route, recipient: EmailAddress): RouteKind
  /** At once where nobody has to be asked. */
  targetsFor(route: Route, recipient: EmailAddress): Routed | Promise<Routed>
}

export interface RouterSettings {
  readonly mxPort: number
  /** Where the sandbox listens on 127.0.0.1. */
  readonly sandboxPort: () => number
  readonly trustedCa?: string
}

export function makeRouter(settings: RouterSettings, resolver: MailResolver, policies: TlsPolicies): Router {
  const { mxPort, trustedCa } = settings

  const kindOf = (route: Route, recipient: EmailAddress): RouteKind =>
    isSimulator(recipient.domain) ? 'sandbox' : route.kind

  const targetsFor = (route: Route, recipient: EmailAddress): Routed | Promise<Routed> => {
    if (route.kind === 'sandbox' || isSimulator(recipient.domain)) return { targets: [sandbox(settings.sandboxPort())] }
    if (route.kind === 'mx')
      return route.tlsRequired === true ? encrypted(recipient.domain) : exchanges(recipient.domain)
    const known = relays.get(route)
    return known !== undefined && performance.now() < known.until ? known.routed : findRelay(route)
  }

  /** What all mail of an installation may share for a moment, beside what its addresses are kept for. */
  const relays = new WeakMap<Route, { readonly routed: Routed; readonly until: number }>()
  const findRelay = async (route: Extract<Route, { kind: 'relay' }>): Promise<Routed> => {
    const resolved = await resolver.relayHosts(route.host)
    if ('trouble' in resolved) return { trouble: resolved.trouble }
    const routed = { targets: resolved.hosts.map((at) => relayHost(at, route)) }
    relays.set(route, { routed, until: performance.now() + Math.min(resolved.keepMs, limits.relayTargetsKeptMs) })
    return routed
  }

  interface Found {
    readonly routed: Routed
    readonly keepMs: number
  }
  const findExchanges = async (domain: string, tlsRequired: boolean): Promise<Found> => {
    const resolved = await resolver.mailHosts(domain)
    if ('trouble' in resolved) return { routed: { trouble: resolved.trouble }, keepMs: 0 }
    const { hosts, keepMs } = resolved
    const rules = await policies.policiesFor(domain, hosts, mxPort)
    const targets = hosts.flatMap((at) => {
      const policy = rules.get(at.host) ?? { kind: 'opportunistic' }
      return policy.kind === 'ruled_out' ? [] : [mailHost(at, mxPort, policy, tlsRequired, trustedCa)]
    })
    if (targets.length === 0) return { routed: { trouble: 'tls_failed' }, keepMs: 0 }
    const routed = { targets } // each attempt tries so many of them (reachability.ts)
    const unsure = [...rules.values()].some((policy) => policy.kind === 'opportunistic' && policy.unsure === true)
    const keptMs = unsure ? limits.dnssecSilentRetestMs : limits.mailHostsKeptMsMax
    return { routed, keepMs: Math.min(keepMs, keptMs) }
  }
  const exchangesWith = (tlsRequired: boolean) => {
    const found = remembered((domain) => findExchanges(domain, tlsRequired), {
      keepMs: ({ keepMs }) => keepMs,
      most: limits.mailHostsKeptMax,
      bytesMost: limits.mailHostsKeptBytesMax,
      owner: currentOwner,
    })
    return async (domain: string): Promise<Routed> => (await found(domain)).routed
  }
  const exchanges = exchangesWith(false)
  const encrypted = exchangesWith(true)

  return { kindOf, targetsFor }
}

function sandbox(port: number): Target {
  return target({
    host: 'localhost',
    address: '127.0.0.1',
    port,
    tls: 'clear',
    verify: false,
    connectionsMax: limits.connectionsPerRelayMax,
    provider: 'sandbox',
  })
}

function mailHost(
  { host, address }: MailHost,
  port: number,
  policy: Exclude<TlsPolicy, { kind: 'ruled_out' }>,
  tlsRequired: boolean,
  trustedCa: string | undefined,
): Target {
  const at = { host, address, port, connectionsMax: limits.connectionsPerDestinationMax, provider: providerOf(host) }
  switch (policy.kind) {
    case 'dane':
      return target({ ...at, tls: 'required', verify: false, dane: policy.rule, tlsPolicy: 'dane' })
    case 'mta_sts':
      return target({
        ...at,
        tls: 'required',
        verify: true,
        tlsPolicy: 'mta_sts',
        ...(trustedCa !== undefined && { trustedCa }),
      })
    case 'opportunistic':
      return tlsRequired
        ? target({ ...at, tls: 'required', verify: false, tlsPolicy: 'route' })
        : target({ ...at, tls: 'opportunistic', verify: false })
  }
}

/**
 * A relay with a login is never spoken to in clear text, and its certificate must be valid for its name, or anybody on the way would
 * learn the password. On loopback there is no way to be on. (A private certificate authority: NODE_EXTRA_CA_CERTS.)
 */
export function relayHost({ host, address }: MailHost, relay: Extract<Route, { kind: 'relay' }>): Target {
  const local = isLoopback(address)
  const required = relay.tlsRequired === true || (relay.login !== undefined && !local)
  const tls = relay.implicitTls ? 'implicit' : required ? 'required' : 'opportunistic'
  const verify = tls !== 'opportunistic' && !local
  const at = {
    host,
    address,
    port: relay.port,
    tls,
    verify,
    connectionsMax: limits.connectionsPerRelayMax,
    provider: `relay ${relay.host}:${relay.port}`,
    ...(tls !== 'opportunistic' && { tlsPolicy: 'route' as const }),
  } as const
  return target(relay.login === undefined ? at : { ...at, login: relay.login })
}

function target(at: Omit<Target, 'key'>): Target {
  const { host, address, port, tls, verify, dane, login } = at
  // The name belongs to the key only where it was verified: else two domains on one host share its connections.
  const key = `${address} ${port} ${tls}${verify ? ` ${host}` : ''}${dane === undefined ? '' : ` dane ${digestOf(dane)}`}`
  return { ...at, key: login === undefined ? key : `${key} ${JSON.stringify([login.user, login.password])}` }
}

/** Two domains share a connection only where its certificate satisfied the rules of both. */
function digestOf({ records, base, names }: DaneRule): string {
  const hash = createHash('sha256').update(JSON.stringify([base, names]))
  for (const { usage, selector, matching, data } of records)
    hash.update(`${usage} ${selector} ${matching} `).update(data)
  return hash.digest('base64url')
}
