// A visit to a relay as delivery makes it, up to where the first mail would begin: address, greeting, TLS, login. Nothing is sent. For the doctor.
import { limits, type Relay, type Settings } from '../config.ts'
import { makeDns } from '../base/dns.ts'
import type { Facts } from '../domain/attempt.ts'
import { Conversation, openConversation } from './conversation.ts'
import { makeResolver } from './resolve.ts'
import { relayHost } from './route.ts'

export interface RelayVisit extends Pick<Facts, 'phase' | 'reply' | 'trouble'> {
  /** Everything went well, over this version of TLS if any. */
  readonly welcome: boolean
  readonly tls?: string
}

type Visitor = Pick<Settings, 'POSTHORN_HOSTNAME' | 'POSTHORN_SMTP_TIMEOUT_SCALE' | 'POSTHORN_DNS_SERVERS'>

/** The addresses are tried one after the other; what the last one said counts. */
export async function visitRelay(settings: Visitor, relay: Relay, withinMs: number): Promise<RelayVisit> {
  const manner = { hostname: settings.POSTHORN_HOSTNAME, timeoutScale: settings.POSTHORN_SMTP_TIMEOUT_SCALE }
  const servers = settings.POSTHORN_DNS_SERVERS
  const late = AbortSignal.timeout(withinMs)
  const dns = makeDns({ servers, queryMs: limits.doctorDnsMs, tries: 1 })
  try {
    const ownServers = servers.length > 0
    const found = await makeResolver(dns, { allowPrivate: true, ownServers }).relayHosts(relay.host)
    if ('trouble' in found) return { welcome: false, phase: 'route', trouble: found.trouble }
    let last: RelayVisit = { welcome: false, phase: 'route', trouble: 'no_mail_host' }
    for (const host of found.hosts.slice(0, limits.doctorHostsTried)) {
      const opened = await openConversation(relayHost(host, relay), manner, [], late)
      if (opened instanceof Conversation) {
        const { tls } = opened.peer
        await opened.quit()
        return { welcome: true, phase: 'auth', ...(tls !== undefined && { tls }) }
      }
      last = { ...opened, welcome: false, ...(late.aborted && { trouble: 'timeout' as const }) }
    }
    return last
  } finally {
    dns.cancel()
  }
}
