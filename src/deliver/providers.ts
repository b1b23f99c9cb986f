// Whose manners count at a mail host: many domains share one provider, which counts all their mail together. The big ones stand in a
// table, with what they publish or are known to bear from a sender that they do not know yet; of the others, the organizational domain of
// the mail host's name is the provider. Operators change any of it with `posthorn destination set`.
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
  readonly hosts: readonly string[]
}

/** Recipients at Microsoft 365 and Google Workspace have domains of their own; their mail hosts tell. */
export const providers: readonly Provider[] = [
  { name: 'google', hosts: ['google.com', 'googlemail.com', 'smtp.goog'], connections: 20, messagesPerConnection: 100 },
  {
    name: 'microsoft',
    hosts: ['outlook.com', 'hotmail.com', 'mx.microsoft'],
    connections: 15,
    messagesPerConnection: 50,
  },
  { name: 'yahoo', hosts: ['yahoodns.net', 'yahoo.com', 'aol.com'], connections: 10, messagesPerConnection: 20 },
  { name: 'apple', hosts: ['mail.icloud.com', 'apple.com'], connections: 10, messagesPerConnection: 50 },
  { name: 'comcast', hosts: ['comcast.net'], connections: 5, messagesPerConnection: 50 },
  {
    name: 'gmx',
    hosts: ['gmx.net', 'gmx.com', 'web.de', 'mail.com', 'kundenserver.de', '1and1.com'],
    connections: 10,
    messagesPerConnection: 50,
  },
  { name: 'orange', hosts: ['orange.fr', 'wanadoo.fr'], connections: 2, messagesPerConnection: 50 },
  { name: 'free', hosts: ['free.fr', 'proxad.net'], connections: 2, messagesPerConnection: 50 },
  { name: 'laposte', hosts: ['laposte.net'], connections: 2, messagesPerConnection: 50 },
  { name: 't-online', hosts: ['t-online.de'], connections: 5, messagesPerConnection: 50 },
  { name: 'libero', hosts: ['libero.it', 'italiaonline.it'], connections: 5, messagesPerConnection: 20 },
  { name: 'mailru', hosts: ['mail.ru'], connections: 10, messagesPerConnection: 50 },
  { name: 'yandex', hosts: ['yandex.ru', 'yandex.net'], connections: 10, messagesPerConnection: 20 },
  { name: 'proton', hosts: ['protonmail.ch', 'proton.me'], connections: 10, messagesPerConnection: 50 },
  { name: 'zoho', hosts: ['zoho.com', 'zoho.eu'], connections: 10, messagesPerConnection: 50 },
]

const byHost = new Map(providers.flatMap((provider) => provider.hosts.map((host) => [host, provider] as const)))
const byName = new Map(providers.map((provider) => [provider.name, provider]))

/** A name for `posthorn destination set`: `google`, or `example.org` for mx1.example.org. An address stands for itself. */
export function providerOf(host: string): string {
  for (let name = host.toLowerCase(); name !== ''; name = name.includes('.') ? name.slice(name.indexOf('.') + 1) : '') {
    const found = byHost.get(name)
    if (found !== undefined) return found.name
  }
  return getDomain(host, { allowPrivateDomains: true }) ?? host.toLowerCase()
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
