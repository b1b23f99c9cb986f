// Where a message goes next (decisions J): the sandbox on loopback, the recipient's mail hosts, or a relay; each as an ordered list of
// targets, with the rule for TLS decided here once. The simulator's domain goes to the sandbox on every installation.
import { limits } from '../config.ts'
import type { Route } from '../config.ts'
import { isSimulator } from '../domain/simulator.ts'
import type { EmailAddress } from '../mail/address.ts'
import { isLoopback } from '../base/private-address.ts'
import type { DnsTrouble, MailHost, MailResolver } from './resolve.ts'

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
  readonly login?: Login
  /** How many connections it is spoken to over at once: strangers get few, the operator's own relay more. */
  readonly connectionsMax: number
  /** Connections with the same key are interchangeable. Holds the login, so it is never logged. */
  readonly key: string
}

export type Routed = { readonly targets: readonly Target[] } | { readonly trouble: DnsTrouble }

export interface Router {
  /** The route that a recipient really takes. */
  kindOf(route: Route, recipient: EmailAddress): RouteKind
  targetsFor(route: Route, recipient: EmailAddress): Promise<Routed>
}

export interface RouterSettings {
  readonly mxPort: number
  /** Where the sandbox listens on 127.0.0.1. */
  readonly sandboxPort: () => number
}

export function makeRouter(settings: RouterSettings, resolver: MailResolver): Router {
  const kindOf = (route: Route, recipient: EmailAddress): RouteKind =>
    isSimulator(recipient.domain) ? 'sandbox' : route.kind

  const targetsFor = async (route: Route, recipient: EmailAddress): Promise<Routed> => {
    if (route.kind === 'sandbox' || isSimulator(recipient.domain)) return { targets: [sandbox(settings.sandboxPort())] }
    const resolved =
      route.kind === 'mx' ? await resolver.mailHosts(recipient.domain) : await resolver.relayHosts(route.host)
    if ('trouble' in resolved) return resolved
    const targetOf =
      route.kind === 'mx' ? (at: MailHost) => mailHost(at, settings.mxPort) : (at: MailHost) => relayHost(at, route)
    return { targets: resolved.hosts.slice(0, limits.addressesPerAttemptMax).map(targetOf) }
  }

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
  })
}

function mailHost({ host, address }: MailHost, port: number): Target {
  return target({
    host,
    address,
    port,
    tls: 'opportunistic',
    verify: false,
    connectionsMax: limits.connectionsPerDestinationMax,
  })
}

/**
 * A relay with a login is never spoken to in clear text, and its certificate must be valid for its name, or anybody on the way would
 * learn the password. On loopback there is no way to be on. (A private certificate authority: NODE_EXTRA_CA_CERTS.)
 */
function relayHost({ host, address }: MailHost, relay: Extract<Route, { kind: 'relay' }>): Target {
  const local = isLoopback(address)
  const tls = relay.implicitTls ? 'implicit' : relay.login !== undefined && !local ? 'required' : 'opportunistic'
  const verify = tls !== 'opportunistic' && !local
  const at = { host, address, port: relay.port, tls, verify, connectionsMax: limits.connectionsPerRelayMax } as const
  return target(relay.login === undefined ? at : { ...at, login: relay.login })
}

function target(at: Omit<Target, 'key'>): Target {
  const { host, address, port, tls, verify, login } = at
  // The name belongs to the key only where it was verified: else two domains on one host share its connections.
  const key = `${address} ${port} ${tls}${verify ? ` ${host}` : ''}`
  return { ...at, key: login === undefined ? key : `${key} ${JSON.stringify([login.user, login.password])}` }
}
