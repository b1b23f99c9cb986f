// Whose manners count at a mail host: many domains share one provider, which counts all their mail together. The big ones stand in a
// table, with what they publish or are known to bear from a sender that they do not know yet; of the others, the organizational domain of
// the mail host's name is the provider. A machine on a customer's line below such a name speaks for itself alone: what it says must not hold
// up the provider's mail. Operators change any of it with `posthorn destination set`.
import { getDomain } from 'tldts'
import { limits } from '../config.ts'

export interface Manners {
  /** At once, over all of its hosts. */
  readonly connections: number
  readonly messagesPerConnection: number
  /** Messages; none: as fast as it takes them. */
  readonly perMinute?: number
}

interface Provider extends Partial<Manners> {
  readonly name: string
  /** Mail hosts are these, or below. */
  readonly hosts?: readonly string[]
  /** Zones in which customers have machines as well: only these names themselves, and what is called like a mail host right below, are its own. */
  readonly zones?: readonly string[]
}

/** Recipients at Microsoft 365 and Google Workspace have domains of their own; their mail hosts tell. */
export const providers: readonly Provider[] = [
  { name: 'google', hosts: ['google.com', 'googlemail.com', 'smtp.goog'], connections: 20, messagesPerConnection: 100 },
  // Consumers' mailboxes have hosts, and an opinion of a sender, of their own; so has whoever pays for Microsoft 365.
  {
    name: 'outlook',
    hosts: ['olc.protection.outlook.com', 'hotmail.com'],
    connections: 15,
    messagesPerConnection: 50,
  },
  { name: 'microsoft', hosts: ['outlook.com', 'mx.microsoft'], connections: 15, messagesPerConnection: 50 },
  {
    name: 'yahoo',
    hosts: ['yahoodns.net', 'yahoo.com', 'mx.aol.com'],
    zones: ['aol.com'],
    connections: 10,
    messagesPerConnection: 20,
  },
  { name: 'apple', hosts: ['mail.icloud.com', 'apple.com'], connections: 10, messagesPerConnection: 50 },
  { name: 'comcast', zones: ['comcast.net'], connections: 5, messagesPerConnection: 50 },
  {
    name: 'gmx',
    hosts: ['gmx.net', 'gmx.com', 'web.de', 'mail.com'],
    zones: ['kundenserver.de', '1and1.com'],
    connections: 10,
    messagesPerConnection: 50,
  },
  { name: 'orange', zones: ['orange.fr', 'wanadoo.fr'], connections: 2, messagesPerConnection: 50 },
  { name: 'free', zones: ['free.fr', 'proxad.net'], connections: 2, messagesPerConnection: 50 },
  { name: 'laposte', hosts: ['laposte.net'], connections: 2, messagesPerConnection: 50 },
  { name: 't-online', zones: ['t-online.de'], connections: 5, messagesPerConnection: 50 },
  { name: 'libero', zones: ['libero.it', 'italiaonline.it'], connections: 5, messagesPerConnection: 20 },
  { name: 'mailru', zones: ['mail.ru'], connections: 10, messagesPerConnection: 50 },
  { name: 'yandex', hosts: ['yandex.ru', 'yandex.net'], connections: 10, messagesPerConnection: 20 },
  { name: 'proton', hosts: ['protonmail.ch', 'proton.me'], connections: 10, messagesPerConnection: 50 },
  { name: 'zoho', hosts: ['zoho.com', 'zoho.eu'], connections: 10, messagesPerConnection: 50 },
]

interface Known {
  readonly provider: Provider
  readonly mixed: boolean
}

const byHost = new Map<string, Known>(
  providers.flatMap((provider) => [
    ...(provider.hosts ?? []).map((host): [string, Known] => [host, { provider, mixed: false }]),
    ...(provider.zones ?? []).map((zone): [string, Known] => [zone, { provider, mixed: true }]),
  ]),
)
const byName = new Map(providers.map((provider) => [provider.name, provider]))

/** `mx1h1`, `smtp-in`, `mxs`, `emx`: what stands before the zone's name and its dot. */
const mailHost = /^(?:(?:e?mx|smtp|mailin|mta)[a-z0-9-]*)?$/
/** A name that was made of an address, or that says how the line is connected: `c-73-1-2-3.hsd1.il`, `p57a1b2c3.dip0`. */
const line =
  /(?<!\d)\d{1,3}(?:[.-]\d{1,3}){3}(?!\d)|(?:^|\.)(?:abo|adsl|broadband|cable|dial(?:in|up)|dip\d?|dsl|dyn|dynamic|fbx|fios|ftth|hsd\d|ipt|ppp|subs|vdsl)(?:\.|$)/

/** A name for `posthorn destination set`: `google`, or `example.org` for mx1.example.org. An address, or a line's name, stands for itself. */
export function providerOf(host: string): string {
  const whole = host.toLowerCase()
  for (let name = whole; name !== ''; name = name.includes('.') ? name.slice(name.indexOf('.') + 1) : '') {
    const found = byHost.get(name)
    if (found === undefined) continue
    const below = before(whole, name)
    return !found.mixed || (mailHost.test(below) && !line.test(below)) ? found.provider.name : whole
  }
  const domain = getDomain(host, { allowPrivateDomains: true }) ?? whole
  return line.test(before(whole, domain)) ? whole : domain
}

/** It stands in the table: its hosts are its own, whatever other names anybody gives to their addresses. */
export const isWellKnown = (provider: string): boolean => byName.has(provider)

/** Whose pace counts over a route that is a workspace's own: its relay's, for that workspace alone. */
export function ofOwner(provider: string, workspaceId: string): string {
  return provider.startsWith('relay ') ? `${provider}${ownedBy}${workspaceId}` : provider
}

/** The name for operators, who set limits for a relay whosever it is. */
export function nameOf(provider: string): string {
  const at = provider.indexOf(ownedBy)
  return at === -1 ? provider : provider.slice(0, at)
}
/** In no name of a host. */
const ownedBy = ' of '

function before(host: string, zone: string): string {
  return host.slice(0, -(zone.length + 1))
}

export function builtInManners(provider: string): Manners {
  const { connections, messagesPerConnection, perMinute } = byName.get(provider) ?? {}
  return {
    connections:
      connections ?? (isOurs(provider) ? limits.connectionsPerRelayMax : limits.connectionsPerDestinationMax),
    messagesPerConnection: messagesPerConnection ?? limits.messagesPerConnectionMax,
    ...(perMinute !== undefined && { perMinute }),
  }
}

/** A relay was chosen by the operator, and the sandbox is ours: nobody there guards against strangers. */
function isOurs(provider: string): boolean {
  return provider === 'sandbox' || provider.startsWith('relay ')
}
