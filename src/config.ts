// Every setting, once. They come from the environment, are read here and nowhere else, and are handed to the rooms as plain values
// (setting-values.ts); `docs/config.md` is made from the table (npm run golden). What has a limit and no setting: limits.ts.
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { likelyNames } from './base/likely-names.ts'
import { limits } from './limits.ts'
import {
  addresses,
  baseUrl,
  clamdAddress,
  databaseUrl,
  days,
  dnsServers,
  flag,
  hostName,
  leaseSeconds,
  listenHost,
  mailbox,
  namedPort,
  ofKubernetes,
  oneOf,
  parseRoute,
  port,
  positive,
  probeNames,
  retrySchedule,
  roleNames,
  roles,
  secretKey,
  secretKeys,
  Wrong,
  type ClamdAddress,
  type RoleName,
  type Route,
} from './setting-values.ts'

export { limits } from './limits.ts'
export { parseRoute, roleNames } from './setting-values.ts'
export type { ClamdAddress, Relay, RoleName, Route } from './setting-values.ts'

interface Setting<T> {
  readonly parse: (text: string) => T
  /** What stands in the documentation as the default. */
  readonly shown: string
  readonly fallback: T
  readonly sentence: string
  readonly secret?: true
}

const text = (value: string): string => value
function setting<T>(parse: (text: string) => T, fallback: T, sentence: string, shown = String(fallback)): Setting<T> {
  return { parse, shown, fallback, sentence }
}
function secret<T>(parse: (text: string) => T, fallback: T, sentence: string, shown: string): Setting<T> {
  return { ...setting(parse, fallback, sentence, shown), secret: true }
}

/** The table: `docs/config.md` has one row for each. */
export const settingTable = {
  POSTHORN_DATA_DIR: setting(
    (value) => resolve(value),
    resolve('data'),
    'Embedded database, generated installation key, self-signed TLS certificate.',
    './data',
  ),
  DATABASE_URL: secret<string | undefined>(
    databaseUrl,
    undefined,
    'Use this PostgreSQL (15 or newer) instead of the embedded one. One host, no pooler between. `sslmode=require` and what is stricter checks the certificate (`sslrootcert=` names the file of its authority; `system`: one of those that Node knows), `no-verify` does not. With `channel_binding=require` the login is bound to that connection where the server can. A password that it leaves out may come from `PGPASSWORD`, or from `~/.pgpass` (`PGPASSFILE`). Parameters that are not heeded are refused.',
    'unset',
  ),
  POSTHORN_SECRET_KEY: secret<string | undefined>(
    secretKey,
    undefined,
    'Encrypts stored secrets; required with `DATABASE_URL`.',
    'generated into the data folder',
  ),
  POSTHORN_SECRET_KEYS_ACCEPTED: secret<readonly string[]>(
    secretKeys,
    [],
    'Comma list of other installation keys that still open what they sealed, while `posthorn rotate-key` changes it (docs/production.md). One that has a comma itself stands there alone.',
    'none',
  ),
  POSTHORN_ROLES: setting<readonly RoleName[]>(
    roles,
    roleNames,
    'Comma list of `api`, `smtp`, `deliver`, `feedback`, `webhooks`.',
    'all',
  ),
  POSTHORN_HTTP_HOST: setting(listenHost, '127.0.0.1', 'Address of the API and the dashboard.'),
  POSTHORN_HTTP_PORT: setting(
    port,
    3000,
    'Port of the API and the dashboard. 0, here and for the other ports that are listened on: any that is free.',
  ),
  POSTHORN_PUBLIC_URL: setting<string | undefined>(
    baseUrl,
    undefined,
    'Base URL in links; the dashboard does not work below a path.',
    'from host and port',
  ),
  POSTHORN_SMTP_HOST: setting(listenHost, '127.0.0.1', 'Address of SMTP submission.'),
  POSTHORN_SMTP_PORT: setting(port, 2587, 'Port of SMTP submission with STARTTLS.'),
  POSTHORN_SMTPS_PORT: setting(port, 2465, 'Port of SMTP submission with implicit TLS.'),
  POSTHORN_SMTP_PUBLIC_PORT: setting<number | undefined>(
    namedPort,
    undefined,
    'Port with STARTTLS that programs are told to use, where another one is published for `POSTHORN_SMTP_PORT`.',
    '`POSTHORN_SMTP_PORT`',
  ),
  POSTHORN_SMTPS_PUBLIC_PORT: setting<number | undefined>(
    namedPort,
    undefined,
    'Port with implicit TLS that programs are told to use, where another one is published for `POSTHORN_SMTPS_PORT`.',
    '`POSTHORN_SMTPS_PORT`',
  ),
  POSTHORN_FEEDBACK_HOST: setting(listenHost, '127.0.0.1', 'Address where bounces and complaint reports arrive.'),
  POSTHORN_FEEDBACK_PORT: setting(
    port,
    2525,
    'Port where bounces and complaint reports arrive (MX of the return-path domain).',
  ),
  POSTHORN_METRICS_PORT: setting(
    port,
    9464,
    'Prometheus metrics, `/healthz` and `/readyz` of a node with any roles, on loopback only.',
  ),
  POSTHORN_TRUST_PROXY: setting<readonly string[]>(
    addresses,
    [],
    'Addresses of the TLS-ending proxies whose forwarding headers count.',
    'none',
  ),
  POSTHORN_SMTP_PROXIES: setting<readonly string[]>(
    addresses,
    [],
    'Addresses of TCP proxies in front of the SMTP ports. Each of their connections must begin with a header of the PROXY protocol, which counts from nobody else.',
    'none',
  ),
  POSTHORN_SYSTEM_MAILBOX: setting<string | undefined>(
    mailbox,
    undefined,
    'Sender of password resets and notices to owners: the id or the address of a mailbox.',
    'made at the first start',
  ),
  POSTHORN_TLS_CERT: setting<string | undefined>(
    text,
    undefined,
    'PEM file of the certificate for SMTP.',
    'self-signed',
  ),
  POSTHORN_TLS_KEY: setting<string | undefined>(text, undefined, 'PEM file of the key for SMTP.', 'self-signed'),
  POSTHORN_HOSTNAME: setting(
    hostName,
    machineName(),
    'Name in EHLO, Received, Message-ID and the return path; with `POSTHORN_PUBLIC_URL` also the SMTP server that programs are told to use.',
    "the machine's",
  ),
  POSTHORN_ROUTE: secret<Route>(
    parseRoute,
    { kind: 'sandbox' },
    '`sandbox`, `mx`, or a relay URL: `smtp://user:pass@host:port`, `smtps://...`; `mx?tls=required` and `smtp://host?tls=required` never send in clear text.',
    'sandbox',
  ),
  POSTHORN_DNS_SERVERS: setting<readonly string[]>(dnsServers, [], 'Comma list of `ip:port`.', "the system's"),
  POSTHORN_DNSSEC_PROBES: setting<readonly string[]>(
    probeNames,
    ['.', 'dnssec-failed.org'],
    'Two names by which the start of DANE tests whether the name servers validate: one that is signed, one whose signatures are broken.',
    '.,dnssec-failed.org',
  ),
  POSTHORN_MX_PORT: setting(namedPort, 25, 'Port of the MX hosts (tests use another).'),
  POSTHORN_DOCTOR_DOMAIN: setting(
    hostName,
    'gmail.com',
    'The domain whose mail hosts `posthorn doctor` greets, to see that port 25 is open.',
  ),
  POSTHORN_ALLOW_PRIVATE_MX: setting(flag, false, 'Let the `mx` route reach private addresses (tests).'),
  POSTHORN_ALLOW_PRIVATE_WEBHOOKS: setting(
    flag,
    false,
    'Let webhooks go to http and private addresses (local development).',
  ),
  POSTHORN_CLAMD: setting<ClamdAddress | undefined>(
    clamdAddress,
    undefined,
    '`tcp://host:port` or `unix:/path`: scan attachments with ClamAV.',
    'unset',
  ),
  POSTHORN_LEASE_SECONDS: setting(
    leaseSeconds,
    60,
    'How long a claimed message belongs to a worker without a heartbeat.',
  ),
  POSTHORN_KEEP_RECORDS_DAYS: setting(
    days(36_500),
    90,
    'How long message records, their attempts and reports are kept, at least; they go four weeks at a time.',
  ),
  POSTHORN_KEEP_EVENTS_DAYS: setting(
    days(36_500),
    30,
    'How long events are kept, at least, to be sent again or read: counted from the day of their message, so a late report goes with it; they go a week at a time.',
  ),
  POSTHORN_KEEP_CONTENT_DAYS: setting(
    days(36_500),
    7,
    'How long body and attachments can be read after a message is final; they are deleted within four days of that, of more than 128 days within 5 % of them.',
  ),
  POSTHORN_KEEP_AUDIT_DAYS: setting(
    days(36_500),
    400,
    'How long the audit log is kept: who changed what, and sign-ins.',
  ),
  POSTHORN_RETRY_SCHEDULE: setting<readonly number[]>(
    (value) => retrySchedule(value, limits.retriesMax, limits.retrySpanSecondsMax),
    [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800],
    'The waits between the tries of a message, each 10 % more or less: `s`, `m` or `h`, 50 at most, 24 hours together at most. Behind the last one it is failed. The same on every node.',
    '`1m,5m,15m,30m,1h,2h,4h,8h,8h`',
  ),
  POSTHORN_TIME_SCALE: setting(
    positive(1e6),
    1,
    'Divides the delays between tries and the 24 h and 120 h webhook rules (tests); never quotas, leases or socket timeouts.',
  ),
  POSTHORN_SMTP_TIMEOUT_SCALE: setting(positive(1e6), 1, "Divides the SMTP client's timeouts (tests)."),
  POSTHORN_LOG_LEVEL: setting(
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent'),
    'info',
    'Least level that is written: `trace`, `debug`, `info`, `warn`, `error`, `silent`.',
  ),
} satisfies Record<string, Setting<unknown>>

type Table = typeof settingTable
export type Settings = { readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? T : never }

/** Every mistake in the environment, one line each. */
export class WrongSettings extends Error {
  override readonly name = 'WrongSettings'
}

/**
 * Reads all settings. Throws `WrongSettings` with every mistake together, those included that a look at what they name (`alsoWrong`) finds. An
 * empty value counts as unset.
 */
export function readSettings(
  environment: NodeJS.ProcessEnv,
  alsoWrong: (settings: Settings) => readonly string[] = () => [],
): Settings {
  const mistakes: string[] = []
  const values = Object.entries(settingTable).map(([name, entry]: [string, Setting<unknown>]) => {
    const given = environment[name]
    if (given === undefined || given === '') return [name, entry.fallback]
    try {
      return [name, entry.parse(given)]
    } catch (error) {
      if (!(error instanceof Wrong)) throw error
      mistakes.push(`${name} ${error.message}`)
      return [name, entry.fallback]
    }
  })
  for (const [name, value] of Object.entries(environment))
    if (/^posthorn_/i.test(name) && !(name in settingTable)) mistakes.push(`${name} ${whyNoSetting(name, value)}`)
  const settings = Object.fromEntries(values) as Settings
  if (settings.DATABASE_URL !== undefined && (environment.POSTHORN_SECRET_KEY ?? '') === '')
    mistakes.push('POSTHORN_SECRET_KEY is required with DATABASE_URL; `openssl rand -base64 32` makes one')
  if ((settings.POSTHORN_TLS_CERT === undefined) !== (settings.POSTHORN_TLS_KEY === undefined))
    mistakes.push('POSTHORN_TLS_CERT and POSTHORN_TLS_KEY belong together: set both or neither')
  const keptDays = settings.POSTHORN_KEEP_RECORDS_DAYS
  for (const name of ['POSTHORN_KEEP_EVENTS_DAYS', 'POSTHORN_KEEP_CONTENT_DAYS'] as const)
    if (settings[name] > keptDays)
      mistakes.push(
        `${name} is ${settings[name]}, but records go after ${keptDays} days: set it to ${keptDays} or less, or raise POSTHORN_KEEP_RECORDS_DAYS`,
      )
  mistakes.push(...portsTakenTwice(settings), ...alsoWrong(settings))
  if (mistakes.length > 0) throw new WrongSettings(mistakes.join('\n'))
  return settings
}

/** What is wrong with a value that somebody has given otherwise, in the words that stand behind its name; undefined where nothing is. */
export function whyWrong(name: keyof Settings, given: string): string | undefined {
  try {
    settingTable[name].parse(given)
    return undefined
  } catch (error) {
    if (!(error instanceof Wrong)) throw error
    return error.message
  }
}

function whyNoSetting(name: string, value = ''): string {
  if (/_SERVICE_(?:HOST|PORT)|_PORT_\d+_/.test(name) || /^(?:tcp|udp|sctp):\/\//.test(value)) return ofKubernetes
  const likely = likelyNames(name, Object.keys(settingTable), 'POSTHORN').join(' or ')
  return `is not a setting; ${likely === '' ? '' : `did you mean ${likely}? `}docs/config.md lists them`
}

/** The base URL of links: as set, or from host and port. What stands for every address, or for this machine, is told as localhost. */
export function publicUrl({ POSTHORN_PUBLIC_URL: set, POSTHORN_HTTP_HOST: host, POSTHORN_HTTP_PORT: port }: Settings) {
  const local = isEveryAddress(host) || host === '127.0.0.1' || host === '::1'
  const url = `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
  return set ?? (local || !URL.canParse(url) ? `http://localhost:${port}` : url)
}

/** Where metrics and health are, in every process that serves: on loopback. */
export const monitoringUrl = ({ POSTHORN_METRICS_PORT: port }: Settings): string => `http://localhost:${port}`

/**
 * Where programs are told to hand mail in: in production at the name that the certificate is for, which need not be the dashboard's; on a machine
 * for trying it out, at the name in the links.
 */
export function submissionServer(settings: Settings) {
  return {
    host:
      settings.POSTHORN_PUBLIC_URL === undefined ? new URL(publicUrl(settings)).hostname : settings.POSTHORN_HOSTNAME,
    port: settings.POSTHORN_SMTP_PUBLIC_PORT ?? settings.POSTHORN_SMTP_PORT,
    tlsPort: settings.POSTHORN_SMTPS_PUBLIC_PORT ?? settings.POSTHORN_SMTPS_PORT,
  }
}

/** Ports that we listen on. Zero stands for any that is free. */
export const listeningPorts = [
  'POSTHORN_HTTP_PORT',
  'POSTHORN_SMTP_PORT',
  'POSTHORN_SMTPS_PORT',
  'POSTHORN_FEEDBACK_PORT',
  'POSTHORN_METRICS_PORT',
] as const satisfies readonly (keyof Settings)[]

/** What listens on each of them, on which address, and in which role; metrics in every process that serves. */
const listeners = {
  POSTHORN_HTTP_PORT: ['http', 'POSTHORN_HTTP_HOST', 'api'],
  POSTHORN_SMTP_PORT: ['submission', 'POSTHORN_SMTP_HOST', 'smtp'],
  POSTHORN_SMTPS_PORT: ['submissions', 'POSTHORN_SMTP_HOST', 'smtp'],
  POSTHORN_FEEDBACK_PORT: ['feedback', 'POSTHORN_FEEDBACK_HOST', 'feedback'],
  POSTHORN_METRICS_PORT: ['metrics', undefined, undefined],
} as const satisfies Record<
  (typeof listeningPorts)[number],
  readonly [string, keyof Settings | undefined, RoleName | undefined]
>

/** Where this node listens, at ports that somebody has named. */
export function namedListeners(settings: Settings) {
  return listeningPorts.flatMap((name) => {
    const [what, hostName, role] = listeners[name]
    const port = settings[name]
    if (port === 0 || (role !== undefined && !settings.POSTHORN_ROLES.includes(role))) return []
    const host = hostName === undefined ? '127.0.0.1' : settings[hostName]
    return [{ what, host, port, from: { port: name, ...(hostName !== undefined && { host: hostName }) } }]
  })
}

const isEveryAddress = (host: string): boolean => host === '0.0.0.0' || host === '::'

/** Two of our own on one port: no other program is to blame, and the start would say so only at the end. */
function portsTakenTwice(settings: Settings): string[] {
  const open = namedListeners(settings)
  return open.flatMap(({ from, port, host }, at) => {
    const first = open
      .slice(0, at)
      .find((other) => other.port === port && (other.host === host || [host, other.host].some(isEveryAddress)))
    return first === undefined
      ? []
      : [`${from.port} is ${port}, which ${first.from.port} is too: each needs a port of its own`]
  })
}

/** The machine's name as far as it is a host name; else `localhost`. */
function machineName(): string {
  try {
    return hostName(hostname())
  } catch {
    return 'localhost'
  }
}

/** This package's version, from package.json. */
export const version: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version
