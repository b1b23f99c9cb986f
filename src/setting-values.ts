// How the values of settings are written: a text becomes a value, or `Wrong`, which says why it is none.
import { isIP } from 'node:net'
import { isUuid } from './base/uuid.ts'

export const roleNames = ['api', 'smtp', 'deliver', 'feedback', 'webhooks'] as const
export type RoleName = (typeof roleNames)[number]

export interface Relay {
  readonly kind: 'relay'
  readonly host: string
  readonly port: number
  /** `smtps://`: TLS from the first byte. Else STARTTLS where the relay offers it, and always before a login. */
  readonly implicitTls: boolean
  readonly login?: { readonly user: string; readonly password: string }
  /** STARTTLS with a valid certificate or nothing; with a login that is so anyway. */
  readonly tlsRequired?: true
}

export interface MailExchanges {
  readonly kind: 'mx'
  /** No mail host is spoken to in clear text, also where no policy of its own asks for more. */
  readonly tlsRequired?: true
}

/** Where ClamAV's daemon listens. */
export type ClamdAddress = { readonly path: string } | { readonly host: string; readonly port: number }
/** Where mail goes (decisions J). */
export type Route = { readonly kind: 'sandbox' } | MailExchanges | Relay

/** Says why a text is not a value; the setting's name is put before it. */
export class Wrong extends Error {}

export function port(value: string): number {
  if (/^(?:tcp|udp|sctp):\/\//.test(value)) throw new Wrong(ofKubernetes)
  const number = Number(value)
  if (!/^\d{1,5}$/.test(value) || number > 65_535) throw new Wrong('must be a port from 0 to 65535')
  return number
}

/** One that others are told, or that we connect to; none is any that is free. */
export function namedPort(value: string): number {
  const number = port(value)
  if (number === 0) throw new Wrong('must be a port from 1 to 65535')
  return number
}

/** It tells every pod of every service, by variables that begin with the service's name. */
export const ofKubernetes =
  'comes from Kubernetes, which tells so of a service with such a name: set enableServiceLinks: false for the pod, or name the service otherwise'

export function flag(value: string): boolean {
  if (value !== 'true' && value !== 'false') throw new Wrong('must be true or false')
  return value === 'true'
}

export const positive =
  (max: number) =>
  (value: string): number => {
    const number = Number(value)
    if (!(number > 0 && number <= max)) throw new Wrong(`must be a number above 0 and at most ${max}`)
    return number
  }

/** Below a second no heartbeat comes in time, and whatever is being sent would be taken for lost. */
export function leaseSeconds(value: string): number {
  const seconds = positive(86_400)(value)
  if (seconds < 1) throw new Wrong('must be 1 at least')
  return seconds
}

const unitSeconds = { s: 1, m: 60, h: 3_600 } as const
/** In seconds. Together no longer than a message is tried at most: what waits beyond that end would never be tried. */
export function retrySchedule(value: string, waitsMax: number, spanSecondsMax: number): readonly number[] {
  const waits = value.split(',').map((each) => {
    const [, digits, unit] = /^\s*(\d{1,6})([smh])\s*$/.exec(each) ?? []
    return Number(digits) * unitSeconds[(unit ?? 's') as keyof typeof unitSeconds]
  })
  const wrong = waits.findIndex((seconds) => !(seconds >= 1))
  if (wrong !== -1)
    throw new Wrong(`must be waits such as 30s, 5m or 1h with commas between; number ${wrong + 1} is none`)
  if (waits.length > waitsMax) throw new Wrong(`must be ${waitsMax} waits at most`)
  if (waits.reduce((sum, seconds) => sum + seconds, 0) > spanSecondsMax)
    throw new Wrong(`must be ${spanSecondsMax / 3_600} hours together at most`)
  return waits
}

export const days =
  (max: number) =>
  (value: string): number => {
    const number = Number(value)
    if (!/^\d+$/.test(value) || number < 1 || number > max)
      throw new Wrong(`must be a whole number of days from 1 to ${max}`)
    return number
  }

export const oneOf =
  <const T extends string>(...values: readonly T[]) =>
  (value: string): T => {
    const found = values.find((candidate) => candidate === value)
    if (found === undefined) throw new Wrong(`must be one of ${values.join(', ')}`)
    return found
  }

/** Links are made by putting a path behind it. */
export function baseUrl(value: string): string {
  if (!URL.canParse(value) || !['http:', 'https:'].includes(new URL(value).protocol))
    throw new Wrong('must be a URL that begins with http:// or https://')
  const base = value.replace(/\/+$/, '')
  const { search, hash, username, password } = new URL(base)
  if (search + hash + username + password !== '' || /[\s?#]/.test(base))
    throw new Wrong('must be a URL without a login, "?", "#" or spaces')
  return base
}

const escapes =
  'user and password need percent codes for what has a meaning in a URL: @ is %40, / %2F, : %3A, # %23, ? %3F, % %25'
/** PostgreSQL's `user:password@/database?host=/folder`, a socket, is no URL without a host. */
export function databaseUrl(value: string): string {
  const [, authority, behind = ''] = /^postgres(?:ql)?:\/\/([^/?#]*)(.*)/.exec(value) ?? []
  if (authority === undefined) throw new Wrong('must be a URL that begins with postgres:// or postgresql://')
  const whole = value.replace('@/', '@localhost/')
  if (/,/.test(authority.replace(/.*@/, '')) || /[?&]host=[^&]*(?:,|%2C)/i.test(value))
    throw new Wrong('names several hosts: give one name or address that leads to the primary')
  const [, ownPort = ''] = /:([^:\]]*)$/.exec(authority.replace(/.*@/, '')) ?? []
  if (!URL.canParse(whole)) {
    // A password with a "/" has its "@" behind it, and what looks like a port is its beginning.
    if (behind.includes('@')) throw new Wrong(`cannot be read: ${escapes}`)
    checkDatabasePort(ownPort)
    throw new Wrong(`cannot be read: the host is a name or an address (IPv6 in brackets), and ${escapes}`)
  }
  const { username, password, hostname, pathname, searchParams } = new URL(whole)
  try {
    for (const part of [username, password, hostname, pathname]) decodeURIComponent(part)
  } catch {
    throw new Wrong(`has a broken percent code: ${escapes}`)
  }
  for (const each of [ownPort, searchParams.get('port') ?? '']) checkDatabasePort(each)
  checkDatabaseParameters(searchParams)
  return value
}

/**
 * Of what may stand behind the `?`, with what it may be; an empty list: anything. What is not heeded here is refused: by the driver's rules it would pass
 * without a word, though it may ask for safety (`require_auth`), or name another database (`dbname`); or change how long we wait for an answer.
 */
const databaseParameters: Readonly<Record<string, readonly string[]>> = {
  host: [],
  port: [],
  user: [],
  password: [],
  sslmode: ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'],
  sslrootcert: [],
  sslcert: [],
  sslkey: [],
  sslnegotiation: ['postgres', 'direct'],
  ssl: ['true'],
  uselibpqcompat: ['true', 'false'],
  channel_binding: ['disable', 'prefer', 'require'],
  // There is one host, and it must be the primary.
  target_session_attrs: ['any', 'read-write', 'primary'],
  application_name: [],
  options: [],
  // Whoever writes these is served without them: how long to wait, and that lines are kept alive, is settled here.
  connect_timeout: [],
  fallback_application_name: [],
  keepalives: [],
  keepalives_idle: [],
  keepalives_interval: [],
  keepalives_count: [],
  tcp_user_timeout: [],
  gssencmode: ['disable', 'prefer'],
  client_encoding: ['utf8', 'UTF8'],
}

function checkDatabaseParameters(given: URLSearchParams): void {
  const unknown = [...new Set(given.keys())].filter((name) => !Object.hasOwn(databaseParameters, name))
  // A password with a "?" has what looks like a parameter behind it.
  if (unknown.some((name) => !/^\w{1,64}$/.test(name))) throw new Wrong(`cannot be read: ${escapes}`)
  if (unknown.length > 0)
    throw new Wrong(
      `has ${unknown.join(', ')}, which nobody heeds here: take it away. There may be ${Object.keys(databaseParameters).join(', ')}`,
    )
  for (const [name, text] of given) {
    const may = databaseParameters[name] ?? []
    if (may.length > 0 && !may.includes(text))
      throw new Wrong(`has the ${name} "${text}", and must have one of ${may.join(', ')}`)
  }
  if (given.get('sslrootcert') === 'system' && (given.get('sslmode') ?? 'verify-full') !== 'verify-full')
    throw new Wrong('has sslrootcert=system, and needs sslmode=verify-full with it')
  if (given.get('channel_binding') === 'require' && !checksCertificate(given))
    throw new Wrong('has channel_binding=require, and needs sslmode=verify-full with it')
}

function checksCertificate(given: URLSearchParams): boolean {
  const isAsked = given.get('ssl') === 'true' || given.get('sslrootcert') === 'system'
  const mode = given.get('sslmode') ?? (isAsked ? 'verify-full' : 'disable')
  return mode === 'verify-full' || (!['disable', 'no-verify'].includes(mode) && given.get('uselibpqcompat') !== 'true')
}

function checkDatabasePort(text: string): void {
  const isPort = /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535
  // Not told: where the host was left out, it is the password.
  if (text !== '' && !isPort) throw new Wrong('has a port that is none: a port is a number from 1 to 65535')
}

export function roles(value: string): readonly RoleName[] {
  if (value === 'all') return roleNames
  const named = value.split(',').map((each) => {
    const found = roleNames.find((name) => name === each.trim())
    if (found === undefined)
      throw new Wrong(`has "${each.trim()}": it must be all, or a comma list of ${roleNames.join(', ')}`)
    return found
  })
  return [...new Set(named)] // each runs once
}

export function dnsServers(value: string): readonly string[] {
  return value.split(',').map((entry) => {
    const server = entry.trim()
    const match = /^(?:\[(.+)\]|([^:]+)):(\d{1,5})$/.exec(server)
    if (isIP(match?.[1] ?? match?.[2] ?? server) === 0)
      throw new Wrong(`"${server}" must be an address, or address:port`)
    if (match !== null && (Number(match[3]) < 1 || Number(match[3]) > 65_535))
      throw new Wrong(`"${server}" has no port between 1 and 65535`)
    return server
  })
}

export function probeNames(value: string): readonly string[] {
  const names = value.split(',').map((name) => name.trim().toLowerCase())
  if (names.length !== 2 || !names.every((name) => name === '.' || /^[a-z0-9._-]{1,253}$/.test(name)))
    throw new Wrong('must be two names with a comma between')
  return names
}

export function addresses(value: string): readonly string[] {
  return value.split(',').map((entry) => {
    const [address, bits, more] = entry.trim().split('/')
    const family = isIP(address ?? '')
    const isNetwork = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
    if (family === 0 || !isNetwork || more !== undefined)
      throw new Wrong(`"${entry.trim()}" must be an address or a network such as 10.0.0.0/8`)
    return entry.trim()
  })
}

export function hostName(value: string): string {
  if (
    value.length > 253 ||
    !value.split('.').every((label) => /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/.test(label))
  )
    throw new Wrong('must be a host name of letters, digits, dots and hyphens')
  if (isIP(value) !== 0) throw new Wrong('must be a name, and not an address')
  return value.toLowerCase()
}

/** What a server listens on: an address, also with its zone, or a name. */
export function listenHost(value: string): string {
  if (isIP(value) === 0 && !/^[\w.-]{1,253}$/.test(value))
    throw new Wrong('must be an address, without brackets, or a host name')
  return value
}

const isLongEnough = (key: string): boolean => Buffer.byteLength(key) >= 32

export function secretKey(value: string): string {
  if (!isLongEnough(value)) throw new Wrong('must be at least 32 characters; `openssl rand -base64 32` makes one')
  return value
}

/** A list of them; and what may be one with commas and blanks of its own, as a whole. A key that opens nothing does no harm. */
export function secretKeys(value: string): readonly string[] {
  const keys = [...new Set([...value.split(',').map((key) => key.trim()), value])].filter(isLongEnough)
  return keys.length > 0 ? keys : [secretKey(value)]
}

export function clamdAddress(value: string): ClamdAddress {
  const parsed = URL.canParse(value) ? new URL(value) : undefined
  if (parsed?.protocol === 'unix:' && parsed.host === '' && parsed.pathname.length > 1)
    try {
      return { path: decodeURIComponent(parsed.pathname) }
    } catch {
      throw new Wrong('has a broken percent sign: write % as %25')
    }
  if (parsed?.protocol === 'tcp:' && parsed.hostname !== '' && /^\/?$/.test(parsed.pathname))
    return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: Number(parsed.port) || 3310 }
  throw new Wrong('must be unix:/path/to/clamd.sock or tcp://host:3310')
}

/** Whether there is such a mailbox is the database's to say. */
export function mailbox(value: string): string {
  if (isUuid(value) || /^[^@\s]+@[^@\s]+$/.test(value)) return value
  throw new Wrong('must be the id or the address of a mailbox')
}

/**
 * A route as written in `POSTHORN_ROUTE` and `workspace set --route`: `sandbox`, `mx`, `mx?tls=required`, `smtp://user:password@host:587`,
 * `smtp://host?tls=required`, `smtps://host:465`. Throws an `Error` whose message says what is wrong.
 */
export function parseRoute(value: string): Route {
  if (value === 'sandbox' || value === 'mx') return { kind: value }
  if (value === 'mx?tls=required') return { kind: 'mx', tlsRequired: true }
  // A password with one of these in it, as many are that somebody's machine has drawn: what stands before it is no host.
  if (/^smtps?:\/\/[^@]*[/?#][^]*@/i.test(value)) throw new Wrong(`cannot be read: ${escapes}`)
  const parsed = URL.canParse(value) ? new URL(value) : undefined
  if (parsed === undefined || !['smtp:', 'smtps:'].includes(parsed.protocol) || parsed.hostname === '')
    throw new Wrong('must be sandbox, mx, or a relay such as smtp://user:password@host:587 or smtps://host:465')
  if (!['', '?tls=required'].includes(parsed.search + parsed.hash) || !['', '/'].includes(parsed.pathname))
    throw new Wrong('may have nothing behind the host and port but ?tls=required')
  if (Number(parsed.port) === 0 && parsed.port !== '') throw new Wrong('has no port between 1 and 65535')
  const implicitTls = parsed.protocol === 'smtps:'
  const relay = {
    kind: 'relay' as const,
    host: parsed.hostname.replace(/^\[|\]$/g, ''),
    port: parsed.port === '' ? (implicitTls ? 465 : 587) : Number(parsed.port),
    implicitTls,
    ...(parsed.search !== '' && { tlsRequired: true as const }),
  }
  if (parsed.username === '') return relay
  try {
    const login = { user: decodeURIComponent(parsed.username), password: decodeURIComponent(parsed.password) }
    return { ...relay, login }
  } catch {
    throw new Wrong('has a user or password with a broken percent sign: write % as %25')
  }
}
