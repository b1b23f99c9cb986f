// What the doctor tries in the network: the way out to mail hosts, the name by which receivers know this machine, and the name servers.
import { connect, isIP, type Socket } from 'node:net'
import { limits, type Relay, type Route, type Settings } from '../config.ts'
import type { Dns } from '../base/dns.ts'
import { validation } from '../base/dnssec.ts'
import { isFullName } from '../base/full-name.ts'
import { isPrivateAddress } from '../base/private-address.ts'
import type { Vault } from '../base/secret.ts'
import { makeZones, textOf } from '../base/zones.ts'
import { isSpf } from '../mail/spf-rfc7208.ts'
import type { Db } from '../store/database.ts'
import { openRoute } from '../store/routes.ts'
import { listRoutes } from '../store/workspaces.ts'
import { fail, ok, skipped, warn, type Finding } from './finding.ts'

/** How far a visit to a relay came, and what ended it. */
export interface SeenRelay {
  readonly welcome: boolean
  readonly phase: string
  readonly reply?: { readonly code: number; readonly text: string }
  readonly trouble?: string
  readonly tls?: string
}

/**
 * `connectMs`: how long one mail host may take to greet, and a relay to let us in. `boldest`: the kind of route that asks most of this machine, which may be
 * a workspace's; relays of workspaces are visited apart.
 */
export async function checkOutbound(
  settings: Settings,
  dns: Dns,
  visit: (relay: Relay, withinMs: number) => Promise<SeenRelay>,
  connectMs: number,
  boldest: Route['kind'],
): Promise<Finding> {
  const route = settings.POSTHORN_ROUTE
  if (route.kind === 'sandbox' && boldest !== 'mx')
    return skipped('The route of the installation is sandbox: nothing leaves this machine over it.')
  if (route.kind !== 'relay') return checkMailHosts(settings, dns, connectMs)
  const relay = checkRelay(route, await visit(route, connectMs), 'POSTHORN_ROUTE')
  if (boldest !== 'mx') return relay
  // Workspaces have the route mx.
  const direct = await checkMailHosts(settings, dns, connectMs)
  return { status: relay.status === 'ok' ? direct.status : relay.status, detail: `${relay.detail} ${direct.detail}` }
}

async function checkMailHosts(settings: Settings, dns: Dns, connectMs: number): Promise<Finding> {
  const domain = settings.POSTHORN_DOCTOR_DOMAIN
  const mx = await dns.ask(domain, 'MX')
  if (mx.kind === 'failure') return fail(`The mail hosts of ${domain}: ${noDns}`)
  const hosts = mx.records
    .flatMap((record) => (record.type === 'MX' ? [record.data] : []))
    .sort((one, other) => (one.preference ?? 0) - (other.preference ?? 0))
    .map(({ exchange }) => exchange)
    .filter((exchange) => exchange !== '' && exchange !== '.') // a null MX (RFC 7505)
  if (hosts.length === 0)
    return fail(
      `${domain} (POSTHORN_DOCTOR_DOMAIN) has no mail hosts, or takes no mail at all (null MX), so the name servers say: name another domain, or look at them (POSTHORN_DNS_SERVERS).`,
    )
  const port = settings.POSTHORN_MX_PORT
  const greeted = async (host: string, type: 'A' | 'AAAA') => {
    const { kind, records } = await dns.ask(host, type)
    const [record] = records
    if (record?.type !== 'A' && record?.type !== 'AAAA')
      return { host, said: kind === 'failure' ? noAnswer : 'no IPv4 address', asked: false }
    return { host, said: await greetingOf(() => connect({ host: record.data, port }), connectMs), asked: true }
  }
  // All at once: a firewall that swallows everything takes the whole time of each.
  const over = (type: 'A' | 'AAAA') =>
    Promise.all(hosts.slice(0, limits.doctorHostsTried).map((host) => greeted(host, type)))
  const [seen, overIpv6] = await Promise.all([over('A'), over('AAAA')])
  const isGood = ({ said }: { readonly said: string }) => said.startsWith('220')
  const good = seen.find(isGood)
  if (good !== undefined) return ok(`${good.host} answered on port ${port}.`)
  const words = seen.map(({ host, said }) => `${host}: ${said}`).join('; ')
  const other = overIpv6.find(isGood)
  if (other !== undefined)
    return warn(
      `${other.host} answered on port ${port} over IPv6 alone (over IPv4: ${words}): mail hosts that have no IPv6, as many have none, are out of reach from here. Have the port opened over IPv4, too, where this machine has that, or send through a relay (POSTHORN_ROUTE).`,
    )
  return [...seen, ...overIpv6].some(({ asked }) => asked)
    ? fail(
        `No mail host of ${domain} could be reached on port ${port} (${words}). Many providers of servers close it: ask them to open it, or send through a relay (POSTHORN_ROUTE).`,
      )
    : fail(`No mail host of ${domain} has a known address (${words}). Look at the name servers (POSTHORN_DNS_SERVERS).`)
}

const noAnswer = 'the name servers did not answer'
const noDns =
  'the name servers did not answer. Look at POSTHORN_DNS_SERVERS (left out: /etc/resolv.conf), and whether port 53 is open for UDP and TCP.'

/** The relays of workspaces that have a route of their own, each login once. */
export async function checkWorkspaceRoutes(
  db: Db,
  vault: Vault,
  visit: (relay: Relay) => Promise<SeenRelay>,
): Promise<Finding> {
  const rows = await listRoutes(db, limits.doctorRoutesRead)
  const relays = new Map<string, { readonly relay: Relay; readonly names: string[] }>()
  for (const { id, name, routeSealed: sealed } of rows) {
    const route = openRoute(vault, id, sealed)
    if (route.kind !== 'relay') continue
    const key = JSON.stringify(route)
    const known = relays.get(key)
    if (known === undefined) relays.set(key, { relay: route, names: [name] })
    else known.names.push(name)
  }
  if (relays.size === 0) return skipped('No workspace has a relay of its own.')
  const visited = [...relays.values()].slice(0, limits.doctorRelaysVisited)
  const found = await Promise.all(
    visited.map(async ({ relay, names: [first, ...others] }) => {
      const whose = others.length === 0 ? first : `${first} and ${others.length} more`
      return checkRelay(relay, await visit(relay), `the route of ${whose} (posthorn workspace set W --route -)`)
    }),
  )
  const bad = found.filter(({ status }) => status !== 'ok').map(({ detail }) => detail)
  const all = visited.length === relays.size && rows.length < limits.doctorRoutesRead
  const rest = all ? '' : ` Only ${visited.length} were visited.`
  return bad.length === 0
    ? ok(`Relays of workspaces that answered, and take their logins: ${visited.length}.${rest}`)
    : fail(`${bad.join(' ')}${rest}`)
}

/** `where`: what to look at. */
function checkRelay({ host, port, login }: Relay, seen: SeenRelay, where: string): Finding {
  const relay = `The relay ${host}:${port}`
  const secured = seen.tls === undefined ? 'in clear text' : `over ${seen.tls}`
  if (seen.welcome)
    return ok(`${relay} answered ${secured}${login === undefined ? '' : `, and takes the login of ${login.user}`}.`)
  const words = shown(seen.reply === undefined ? (seen.trouble ?? seen.phase) : `${seen.reply.code} ${seen.reply.text}`)
  if (seen.phase === 'auth')
    return fail(
      `${relay} does not take the login of ${login?.user ?? 'nobody'} (${words}): mail waits until it does. Look at user and password in ${where}; in a URL "@", ":", "/", "?", "#" and "%" are written %40, %3A, %2F, %3F, %23 and %25.`,
    )
  if (seen.phase === 'tls')
    return fail(
      `${relay} cannot be spoken to over TLS with a valid certificate for ${host} (${words}), and a login is not sent without: mail waits until it can. Look at ${where}: smtps:// for port 465, smtp:// for 587; a certificate authority of your own goes into NODE_EXTRA_CA_CERTS.`,
    )
  return fail(
    `${relay} does not answer as a mail server (${seen.phase}: ${words}): mail waits until it does. Look at ${where}.`,
  )
}

/** Text of strangers. */
const shown = (words: string): string => words.replace(/[^\x20-\x7e]/g, ' ').slice(0, 200)

/** The first line, or why there was none. */
function greetingOf(open: () => Socket, ms: number): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = open()
    const settle = (words: string): void => {
      clearTimeout(timer)
      socket.end('QUIT\r\n')
      socket.destroySoon()
      resolve(shown(words))
    }
    const timer = setTimeout(() => {
      settle('no answer')
      socket.destroy()
    }, ms)
    socket.on('error', (error: NodeJS.ErrnoException) => settle(error.code ?? error.message))
    socket.on('close', () => settle('it closed the connection'))
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (text.includes('\n') || text.length > 1_000) settle(text.split('\r')[0] ?? '')
    })
  })
}

/**
 * On every route the name stands in return path, Received and Message-ID, and in the DNS records that users copy. On the route mx it is also the
 * name in EHLO: it must lead here, and the address must lead back to it, because many receivers refuse what does not.
 */
export async function checkHostname(settings: Settings, dns: Dns, boldest: Route['kind']): Promise<Finding> {
  const { POSTHORN_HOSTNAME: hostname } = settings
  if (!isFullName(hostname)) {
    const why = `POSTHORN_HOSTNAME ${hostname} is no full name, and it stands in return paths and in the DNS records that domains are given`
    if (boldest === 'sandbox')
      return warn(`${why}: set one such as mail.example.org before you add a domain or send real mail.`)
    const set = 'Set one such as mail.example.org.'
    return boldest === 'mx' ? fail(`${why}, and receivers refuse it in EHLO. ${set}`) : warn(`${why}. ${set}`)
  }
  if (boldest === 'sandbox') return skipped('From the sandbox no mail leaves: nobody looks this name up yet.')
  if (boldest !== 'mx')
    return ok(`${hostname} is a full name. Receivers look up the relay's name instead; this one is in the return path.`)
  const [four, six] = await Promise.all([dns.ask(hostname, 'A'), dns.ask(hostname, 'AAAA')])
  const addresses = [...four.records, ...six.records].flatMap((record) =>
    record.type === 'A' || record.type === 'AAAA' ? [record.data] : [],
  )
  if (addresses.length === 0 && (four.kind === 'failure' || six.kind === 'failure'))
    return fail(`${hostname} (POSTHORN_HOSTNAME): ${noDns}`)
  if (addresses.length === 0)
    return fail(
      `${hostname} (POSTHORN_HOSTNAME) has no address in the DNS: set an A record to this machine's public address.`,
    )
  const reversed = await Promise.all(
    addresses.slice(0, limits.doctorHostsTried).map(async (address) => {
      const { kind, records } = await dns.ask(reverseName(address), 'PTR')
      const names = records.flatMap((record) =>
        record.type === 'PTR' ? [record.data.toLowerCase().replace(/\.$/, '')] : [],
      )
      return { address, names, known: kind !== 'failure' }
    }),
  )
  const wrong = reversed.filter(({ names, known }) => known && !names.includes(hostname))
  if (wrong.length > 0)
    return fail(
      `${wrong.map(({ address, names }) => `the reverse name of ${address} is ${names.join(', ') || 'not set'}`).join('; ')}; it must be ${hostname}. Your provider sets it (PTR, "reverse DNS").`,
    )
  const unknown = reversed.filter(({ known }) => !known).map(({ address }) => address)
  if (unknown.length > 0)
    return warn(
      `The reverse name of ${unknown.join(', ')} could not be looked up: ${noAnswer} for it. It must be ${hostname}.`,
    )
  if (!settings.POSTHORN_ALLOW_PRIVATE_MX && addresses.some(isPrivateAddress))
    return warn(
      `${hostname} leads to a private address: receivers see another one, whose reverse name must be ${hostname} too.`,
    )
  const texts = await dns.ask(hostname, 'TXT')
  if (texts.kind !== 'failure' && !texts.records.some((record) => isSpf(textOf(record) ?? '')))
    return warn(
      `${hostname} leads to ${addresses.join(', ')} and back, but has no SPF record, so SPF passes for no return path: set the TXT record "v=spf1 a -all".`,
    )
  return ok(`${hostname} leads to ${addresses.join(', ')} and back.`)
}

/** `1.0.0.127.in-addr.arpa` (RFC 1035 3.5), or nibbles under ip6.arpa (RFC 3596 2.5). */
export function reverseName(address: string): string {
  if (isIP(address) === 4) return `${address.split('.').toReversed().join('.')}.in-addr.arpa`
  const [head = '', tail] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
  const nibbles = groups.map((group) => group.padStart(4, '0')).join('')
  return `${nibbles.split('').toReversed().join('.')}.ip6.arpa`
}

export async function checkDnssec(settings: Settings, dns: Dns, boldest: Route['kind']): Promise<Finding> {
  if (boldest !== 'mx') return skipped('Only the route mx asks for DANE records.')
  if (!dns.near)
    return warn(
      "The name servers are the system's, and not on this machine (Docker's, 127.0.0.11, hands on the word of others): what they say about DNSSEC can be forged on the way, so DANE is off. Run a validating resolver here (unbound, knot-resolver), or name one in POSTHORN_DNS_SERVERS.",
    )
  const [signed = '.', forged = 'dnssec-failed.org'] = settings.POSTHORN_DNSSEC_PROBES
  const words = {
    yes: () => ok('The name servers validate DNSSEC: DANE is on.'),
    unknown: () =>
      warn(
        `Whether the name servers validate DNSSEC is not known, as they did not answer for ${signed} or ${forged} (POSTHORN_DNSSEC_PROBES). DANE stays on for up to a day where they validated before, and is off where they have not yet. If that lasts: ${noDns}`,
      ),
    no: () =>
      warn(
        'The name servers do not validate DNSSEC, so DANE is off: mail is encrypted, but who reads it is not proven. Use a validating resolver.',
      ),
  }
  return words[await validation(dns, { signed, forged })]()
}

/** False: the configured name servers answer, and those of a zone do not: then a domain check sees nothing (docs/decisions/0038). */
export async function canAskZones(
  settings: Settings,
  dns: Dns,
  boldest: Route['kind'],
  zonePort?: number,
): Promise<boolean> {
  if (boldest === 'sandbox') return true
  const domain = settings.POSTHORN_DOCTOR_DOMAIN
  const zones = makeZones({
    servers: settings.POSTHORN_DNS_SERVERS,
    queryMs: limits.doctorDnsMs,
    ...(zonePort !== undefined && { zonePort }),
  })
  const [known, own] = await Promise.all([dns.ask(domain, 'MX'), zones.ask(domain, 'MX')])
  return known.kind === 'failure' || own.kind !== 'unanswered'
}
