// `posthorn doctor`: looks at everything that an installation needs to keep its promise, and says what to do where something is missing. Each
// check stands for itself, has a deadline, and changes nothing; one that cannot be made is a finding of its own.
import { limits, type Relay, type Settings } from '../config.ts'
import { makeDns } from '../base/dns.ts'
import { usableMemory } from '../base/memory.ts'
import type { Vault } from '../base/secret.ts'
import type { Db } from '../store/database.ts'
import { boldestRoute, isMailReal } from '../store/routes.ts'
import {
  checkBackup,
  checkClock,
  checkDatabase,
  checkDelivery,
  checkDomains,
  checkFirstSecrets,
  checkQueue,
  checkRefusals,
  checkReplication,
  checkWebhooks,
} from './database-checks.ts'
import { checkCertificate, checkDataFolder, checkDisk, checkKey, checkMemory } from './machine-checks.ts'
import { fail, ok, skipped, warn, type Finding } from './finding.ts'
import {
  canAskZones,
  checkDnssec,
  checkHostname,
  checkOutbound,
  checkWorkspaceRoutes,
  type SeenRelay,
} from './network-checks.ts'
import { checkOwnNode } from './own-node.ts'
import { checkSystemMailbox, type SeenSender } from './system-mailbox-check.ts'

export type { CheckStatus } from './finding.ts'
export { checkMemory } from './machine-checks.ts'
export { checkSystemMailbox } from './system-mailbox-check.ts'

export interface Check extends Finding {
  readonly name: CheckName
}

/** What the doctor asks of the malware scanner. */
export interface AskedScanner {
  facts(): Promise<{
    readonly description: string
    readonly trouble?: string
    readonly signatures?: string
  }>
}

/** Why there is no database to ask. `wrongKey`: it answers, and this installation key does not open it. */
interface Unusable {
  readonly trouble: string
  readonly wrongKey?: boolean
}

export interface DoctorTools {
  readonly settings: Settings
  readonly database: { readonly db: Db; readonly vault: Vault } | Unusable
  readonly scanner: AskedScanner
  /** A visit to a relay, up to where the first mail would begin. */
  readonly visit: (relay: Relay, withinMs: number) => Promise<SeenRelay>
  /** Who sends the installation's own mail. */
  readonly systemSender: (db: Db, vault: Vault) => Promise<SeenSender | undefined>
  /** Whose a mail host is. */
  readonly providerOf: (host: string) => string
  readonly now?: () => Date
  /** What there is to work with. */
  readonly memoryBytes?: number
  /** How long one check may take. */
  readonly checkMs?: number
  /** Where the servers of zones listen (tests). */
  readonly zonePort?: number
}

/** In the order in which they are shown. */
export const checkNames = [
  'database',
  'replication',
  'clock',
  'delivery',
  'queue',
  'refusals',
  'backup',
  'domains',
  'webhooks',
  'system_mailbox',
  'first_secrets',
  'scanner',
  'outbound',
  'workspace_routes',
  'hostname',
  'dnssec',
  'tls',
  'data_folder',
  'disk',
  'memory',
  'installation_key',
] as const
export type CheckName = (typeof checkNames)[number]

export async function examine(tools: DoctorTools): Promise<readonly Check[]> {
  const {
    settings,
    database,
    now = () => new Date(),
    memoryBytes = usableMemory(),
    checkMs = limits.doctorCheckMs,
  } = tools
  const dns = makeDns({ servers: settings.POSTHORN_DNS_SERVERS, queryMs: limits.doctorDnsMs, tries: 1 })
  const wrongKey = 'trouble' in database && database.wrongKey === true ? database.trouble : undefined
  const notLookedAt = skipped(
    wrongKey === undefined
      ? 'The database cannot be reached.'
      : 'The key does not fit this database: see installation_key.',
  )
  const asking = (look: (db: Db, vault: Vault) => Promise<Finding>) => (): Promise<Finding> =>
    'trouble' in database ? Promise.resolve(notLookedAt) : look(database.db, database.vault)
  const isReal = (db: Db, vault: Vault) => () => isMailReal(db, vault, settings.POSTHORN_ROUTE)
  const ownKind = settings.POSTHORN_ROUTE.kind
  // Without the database, what the settings say. Asked once, for four checks.
  const boldest =
    'trouble' in database
      ? ownKind
      : boldestRoute(database.db, database.vault, settings.POSTHORN_ROUTE).catch(() => ownKind)
  const connectMs = Math.min(limits.doctorConnectMs, checkMs / 2)
  const looks = {
    database: () =>
      'trouble' in database && wrongKey === undefined
        ? Promise.resolve(fail(unusable(database.trouble)))
        : asking((db) => checkDatabase(db))(),
    replication: asking(checkReplication),
    clock: asking((db) => checkClock(db, now)),
    delivery: async () => (await checkOwnNode(settings)) ?? asking(checkDelivery)(),
    queue: asking(checkQueue),
    refusals: asking((db) => checkRefusals(db, tools.providerOf)),
    backup: asking((db, vault) => checkBackup(db, isReal(db, vault))),
    domains: asking((db) => checkDomains(db, async () => canAskZones(settings, dns, await boldest, tools.zonePort))),
    webhooks: asking(checkWebhooks),
    system_mailbox: asking(async (db, vault) => checkSystemMailbox(settings, await tools.systemSender(db, vault))),
    first_secrets: asking((db, vault) => checkFirstSecrets(db, isReal(db, vault))),
    scanner: () => checkScanner(tools.scanner, settings, now(), memoryBytes),
    outbound: async () => checkOutbound(settings, dns, tools.visit, connectMs, await boldest),
    workspace_routes: asking((db, vault) => checkWorkspaceRoutes(db, vault, (relay) => tools.visit(relay, connectMs))),
    hostname: async () => checkHostname(settings, dns, await boldest),
    dnssec: async () => checkDnssec(settings, dns, await boldest),
    tls: () => checkCertificate(settings, now()),
    data_folder: () => checkDataFolder(settings),
    disk: () => checkDisk(settings),
    memory: () => Promise.resolve(checkMemory(memoryBytes)),
    installation_key: () => (wrongKey === undefined ? checkKey(settings) : Promise.resolve(fail(wrongKey))),
  } as const satisfies Record<CheckName, () => Promise<Finding>>
  try {
    return await Promise.all(checkNames.map(async (name) => ({ name, ...(await bounded(looks[name], checkMs)) })))
  } finally {
    dns.cancel()
  }
}

const unusable = (trouble: string): string =>
  `It cannot be used: ${trouble.replace(/\.$/, '')}. Without it nothing is accepted.`

/** A check that hangs or breaks says so, and does not keep the others. */
async function bounded(look: () => Promise<Finding>, checkMs: number): Promise<Finding> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Finding>((resolve) => {
    timer = setTimeout(() => resolve(fail(`There was no answer within ${checkMs / 1000} seconds.`)), checkMs)
  })
  try {
    return await Promise.race([look(), late])
  } catch (error) {
    return fail(`It could not be looked at: ${error instanceof Error ? error.message : String(error)}.`)
  } finally {
    clearTimeout(timer)
  }
}

async function checkScanner(
  scanner: AskedScanner,
  settings: Settings,
  now: Date,
  memoryBytes: number,
): Promise<Finding> {
  const { description, trouble, signatures } = await scanner.facts()
  if (trouble !== undefined)
    return fail(
      `${description}: ${trouble}. Until this is mended every mail with attachments is answered 503, and 451 over SMTP.`,
    )
  if (settings.POSTHORN_CLAMD === undefined)
    return warn(
      memoryBytes < limits.doctorClamdMemoryBytesLow
        ? `${description}. To look for known malware, let POSTHORN_CLAMD name a ClamAV on another machine (docs/scanning.md): it takes more than 1 GB, and this one has ${(memoryBytes / 1e9).toFixed(1)} GB in all.`
        : `${description}. Install ClamAV and set POSTHORN_CLAMD to look for known malware (docs/scanning.md).`,
    )
  if (signatures === undefined) return ok(`${description}.`)
  const said = `${description}, signatures ${signatures}`
  const days = Math.floor((now.getTime() - madeAt(signatures)) / 86_400_000)
  return days > limits.doctorSignaturesDays
    ? warn(
        `${said}: they are ${days} days old, and what is newer is not recognised. Does freshclam run, and does clamd load what it brings (systemctl status clamav-freshclam)?`,
      )
    : ok(`${said}.`)
}

/** `27000 (Mon Nov 16 09:30:00 2026)`: in the zone of the engine's machine, which is near enough for days. NaN where there is no date. */
const madeAt = (signatures: string): number => Date.parse(/\((.+)\)/.exec(signatures)?.[1] ?? '')
