// What a zone's own servers say about a name: no resolver's memory stands between, so that a record that was just set is seen, and one that
// was just removed is missed. Their names come from the resolver, going up from the asked name; an answer counts only with the AA bit. Aliases
// that lead to another zone are followed there.
import { limits } from '../config.ts'
import type packet from 'dns-packet'
import { makeDns, type Dns, type DnsAnswer, type RecordType } from './dns.ts'
import { isPrivateAddress } from './private-address.ts'

export interface ZoneAnswer {
  /** `unanswered`: nobody who speaks for the zone could be asked, or answered. */
  readonly kind: 'found' | 'no_data' | 'not_found' | 'unanswered'
  readonly records: readonly packet.Answer[]
  /** Names that the asked one was an alias of, in order. */
  readonly aliases: readonly string[]
}

export interface Zones {
  ask(name: string, type: RecordType): Promise<ZoneAnswer>
}

export interface ZoneSettings {
  /** POSTHORN_DNS_SERVERS. */
  readonly servers: readonly string[]
  readonly queryMs?: number
  /** For tests: no server is asked instead of the zones' own, which listen on this port and may be private. */
  readonly zonePort?: number
}

/**
 * Servers that the operator named with a port other than 53 are no resolver of the internet's: they are asked instead of the zones' own
 * (docs/decisions/0038).
 */
export function makeZones(settings: ZoneSettings): Zones {
  const { servers, queryMs = limits.zoneQueryMs, zonePort } = settings
  const dns = makeDns({ servers, queryMs, tries: 1 })
  const instead = zonePort === undefined ? servers.filter(hasOwnPort) : []
  const askOne =
    instead.length > 0
      ? (name: string, type: RecordType) => askInTurn(instead, (server) => dns.askServer(server, name, type))
      : async (name: string, type: RecordType) => {
          const found = await serversOf(dns, name, zonePort ?? 53, zonePort !== undefined)
          return askInTurn(found, async (server) => {
            const answer = await dns.askServer(server, name, type, 'own')
            return answer.authoritative ? answer : undefined
          })
        }

  const ask = async (name: string, type: RecordType): Promise<ZoneAnswer> => {
    const aliases: string[] = []
    for (let asked = name; aliases.length <= limits.dnsAliasesMax;) {
      const answer = await askOne(asked, type)
      if (answer === undefined) return { kind: 'unanswered', records: [], aliases }
      const led = answer.canonical !== asked.toLowerCase()
      if (led) aliases.push(answer.canonical)
      // An alias that leaves the zone: its target is asked where it lives.
      if (led && answer.kind === 'no_data') asked = answer.canonical
      else return { kind: answer.kind as 'found', records: answer.records, aliases }
    }
    return { kind: 'unanswered', records: [], aliases }
  }
  return { ask }
}

/** `ip:port` or `[ip]:port`, and not a bare IPv6 address. */
const hasOwnPort = (server: string): boolean => /^(?:\[.+\]|[^:]+):(?!53$)\d{1,5}$/.test(server)

async function askInTurn(
  servers: readonly string[],
  ask: (server: string) => Promise<DnsAnswer | undefined>,
): Promise<DnsAnswer | undefined> {
  for (const server of servers.slice(0, limits.zoneServersAskedMax)) {
    const answer = await ask(server)
    if (answer !== undefined && answer.kind !== 'failure') return answer
  }
  return undefined
}

/** Addresses of the servers of the zone that the name lies in: the nearest name above it that has NS records. */
async function serversOf(dns: Dns, name: string, port: number, allowPrivate: boolean): Promise<string[]> {
  const labels = name.toLowerCase().split('.')
  for (let from = 0; from < labels.length; from++) {
    const zone = labels.slice(from).join('.')
    const answer = await dns.ask(zone, 'NS')
    // Whoever says that it does not know has answered: were it a zone of its own, those of the zone above would only refer to it.
    if (answer.kind === 'failure' && !answer.answered) return []
    if (answer.kind !== 'found' || answer.canonical !== zone) continue
    const names = answer.records
      .flatMap((record) => (record.type === 'NS' ? [record.data] : []))
      .slice(0, limits.zoneServersAskedMax)
    const addresses = await Promise.all(names.map((server) => addressesOf(dns, server)))
    // The first address of each server before the second of any: one server that is away does not use up all turns.
    const inTurn = [0, 1].flatMap((turn) => addresses.flatMap((own) => own[turn] ?? []))
    return inTurn
      .filter((address) => allowPrivate || !isPrivateAddress(address))
      .map((address) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`))
  }
  return []
}

async function addressesOf(dns: Dns, name: string): Promise<string[]> {
  const answers = await Promise.all([dns.ask(name, 'A'), dns.ask(name, 'AAAA')])
  return answers.flatMap(({ records }) =>
    records.flatMap((record) => (record.type === 'A' || record.type === 'AAAA' ? [record.data] : [])),
  )
}

/** The text of a TXT record: its strings, joined without anything between (RFC 7208 3.3). */
export function textOf(record: packet.Answer): string | undefined {
  if (record.type !== 'TXT') return undefined
  const { data } = record
  const parts = Array.isArray(data) ? data : [data]
  return parts.map((part) => (typeof part === 'string' ? part : part.toString('utf8'))).join('')
}
