// The doctor on an installation that is well, and on one where everything is broken. The world outside is the tests' own.
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { Client } from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { selfSigned, tlsCertificate } from '../base/certificate.ts'
import { makeVault, sealedAs } from '../base/secret.ts'
import { limits, readSettings, type Settings } from '../config.ts'
import { providerOf } from '../deliver/deliver.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { insertKey, revokeKeyRow } from '../store/api-keys.ts'
import { watchReadiness } from '../readiness.ts'
import { setDrain } from '../store/fence.ts'
import { noteFirstSecrets } from '../store/first-secrets.ts'
import { noteBackup } from '../store/last-backup.ts'
import { beginRemoval, carryOnRemoval } from '../store/removal.ts'
import { insertCredential, revokeCredentialRow } from '../store/smtp-credentials.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { checkDatabase } from './database-checks.ts'
import { checkNames, examine, type Check, type CheckName, type DoctorTools } from './doctor.ts'
import { checkDataFolder, judgeDisk } from './machine-checks.ts'
import { reverseName, type SeenRelay } from './network-checks.ts'
import type { SeenSender } from './system-mailbox-check.ts'

const hostname = 'mail.shop.example'
const vault = makeVault('a key for the tests of the doctor')

const folder = temporaryFolder()
const pem = selfSigned(hostname, new Date())
writeFileSync(join(folder, 'cert.pem'), pem.cert)
writeFileSync(join(folder, 'key.pem'), pem.key)
writeFileSync(join(folder, 'secret-key'), `${'k'.repeat(43)}\n`)
const world = await storeWorld()
await world.sender()
const mailHost = createServer((socket) => socket.on('error', () => undefined).end('220 mx.test hello\r\n')).listen(
  0,
  '127.0.0.1',
)
await once(mailHost, 'listening')
const dns = await startDnsServer({
  'big.example': { mx: [{ preference: 10, exchange: 'mx.big.example' }] },
  'mx.big.example': { a: ['127.0.0.1'] },
  [hostname]: { a: ['127.0.0.1'], txt: ['v=spf1 a -all'] },
  '1.0.0.127.in-addr.arpa': { ptr: [hostname] },
  'signed.example': { soa: { ttl: 60, minimum: 60 }, secure: true },
  'forged.example': 'servfail',
})
afterAll(async () => {
  await dns.stop()
  mailHost.close()
})

const settings = (more: Readonly<Record<string, string>> = {}): Settings =>
  readSettings({
    POSTHORN_DATA_DIR: folder,
    POSTHORN_HOSTNAME: hostname,
    POSTHORN_METRICS_PORT: '0', // none runs here
    POSTHORN_ROUTE: 'mx',
    POSTHORN_MX_PORT: String((mailHost.address() as AddressInfo).port),
    POSTHORN_ALLOW_PRIVATE_MX: 'true',
    POSTHORN_DNS_SERVERS: dns.address,
    POSTHORN_DNSSEC_PROBES: 'signed.example,forged.example',
    POSTHORN_DOCTOR_DOMAIN: 'big.example',
    POSTHORN_TLS_CERT: join(folder, 'cert.pem'),
    POSTHORN_TLS_KEY: join(folder, 'key.pem'),
    POSTHORN_CLAMD: 'tcp://127.0.0.1:3310',
    ...more,
  })
const scanner = { facts: () => Promise.resolve({ description: 'ClamAV', signatures: '27000' }) }
/** What a visit to a relay saw. */
let seen: SeenRelay = { welcome: true, phase: 'auth' }
const visit = () => Promise.resolve(seen)
/** Who sends the installation's own mail. */
const sender: SeenSender = {
  address: 'no-reply@shop.de',
  mailbox: 'active',
  workspace: { id: 'w', name: 'Posthorn', status: 'active' },
  domain: { name: 'shop.de', status: 'verified', vouched: false, dkimSeen: true },
}
const systemSender = () => Promise.resolve(sender)
const found = async (tools: Partial<DoctorTools> = {}): Promise<Record<CheckName, Check>> => {
  const checks = await examine({
    settings: settings(),
    database: { db: world.db, vault },
    scanner,
    visit,
    systemSender,
    providerOf,
    ...tools,
  })
  expect(checks.map(({ name }) => name)).toEqual(checkNames)
  return Object.fromEntries(checks.map((check) => [check.name, check])) as Record<CheckName, Check>
}

test('a backup that is old, or was never made, is a warning where mail is really sent', async () => {
  const { status, detail } = (await found()).backup
  expect([status, detail]).toEqual([
    'warn',
    expect.stringMatching(/^There was never a backup: .*posthorn-backup\.timer/),
  ])
  const sandbox = { settings: settings({ POSTHORN_ROUTE: 'sandbox' }) }
  expect((await found(sandbox)).backup.status).toBe('skipped')
  const { workspaceId } = await world.sender()
  const routed = (route: string) =>
    world.db.run('update workspaces set route_sealed = $2 where id = $1', [
      workspaceId,
      vault.seal(route, sealedAs.route(workspaceId)),
    ])
  await routed('sandbox')
  expect((await found(sandbox)).backup.status).toBe('skipped')
  // One workspace has a route of its own.
  await routed('mx')
  expect((await found(sandbox)).backup.status).toBe('warn')
  await world.db.run('update workspaces set route_sealed = null where id = $1', [workspaceId])
  const hours = (ago: number) => new Date(Date.now() - ago * 3600_000)
  await noteBackup(world.db, { takenAt: hours(49), bytes: 12 * 1024 ** 2 })
  expect((await found()).backup).toMatchObject({
    status: 'warn',
    detail: expect.stringMatching(/^The last backup is 2 days old, 12 MB: /) as string,
  })
  await noteBackup(world.db, { takenAt: hours(20), bytes: 12 * 1024 ** 2 })
  expect((await found()).backup).toEqual({
    name: 'backup',
    status: 'ok',
    detail: 'The last backup is 20 hours old, 12 MB.',
  })
})

test('what the first start printed into a log is a warning where mail is really sent, each with the command that ends it', async () => {
  expect((await found()).first_secrets.status).toBe('ok')
  const [key, credential] = [randomUUID(), randomUUID()]
  const { workspaceId } = await world.sender()
  await insertKey(world.db, workspaceId, {
    id: key,
    name: 'first key',
    prefix: 'ph_',
    secretHash: Buffer.from(key),
    scopes: ['mail.send'],
    expiresAt: null,
  })
  await insertCredential(world.db, workspaceId, {
    id: credential,
    name: 'first credential',
    username: credential,
    passwordHash: Buffer.from('x'),
  })
  await noteFirstSecrets(world.db, { key, credential })
  const { status, detail } = (await found()).first_secrets
  expect([status, detail]).toEqual(['warn', expect.stringContaining(`posthorn key revoke ${key}`)])
  expect(detail).toContain(`posthorn smtp-credential revoke ${credential}`)
  expect((await found({ settings: settings({ POSTHORN_ROUTE: 'sandbox' }) })).first_secrets.status).toBe('skipped')
  await revokeKeyRow(world.db, workspaceId, key)
  await revokeCredentialRow(world.db, workspaceId, credential)
  expect((await found()).first_secrets.status).toBe('ok')
})

test('an installation that is well: nothing failed, nothing to warn of', async () => {
  const checks = await found()
  const { disk, ...others } = checks // the machine of the tests may be full
  expect(disk.detail).toContain('free')
  const troubled = Object.values(others).filter(({ status }) => status === 'fail' || status === 'warn')
  expect(troubled).toEqual([])
  expect(checks.hostname.detail).toContain('127.0.0.1 and back')
})

/** A data folder whose database lies elsewhere, as below a folder of root's alone. */
function elsewhere(): string {
  const data = join(folder, 'elsewhere')
  mkdirSync(data, { recursive: true })
  writeFileSync(join(data, 'postgresql.json'), JSON.stringify({ cluster: '/dev/shm', password: 'p', made: true }))
  return data
}

/** As `cp` makes it. */
function openFolder(): string {
  const data = join(folder, 'open')
  mkdirSync(data, { recursive: true, mode: 0o711 })
  writeFileSync(join(data, 'secret-key'), `${'k'.repeat(43)}\n`, { mode: 0o644 })
  return data
}

test('the look whether the data folder can be written writes into no file that there is', async () => {
  const theirs = join(folder, 'theirs')
  writeFileSync(theirs, 'theirs')
  symlinkSync(theirs, join(folder, `.doctor-${process.pid}`))
  expect(await checkDataFolder(settings())).toMatchObject({ status: 'ok' })
  expect(readFileSync(theirs, 'utf8')).toBe('theirs')
})

test('the disk of a database that lies outside its data folder is looked at, too', async () => {
  const { disk } = await found({
    settings: settings({ POSTHORN_DATA_DIR: elsewhere(), POSTHORN_SECRET_KEY: 'k'.repeat(32) }),
  })
  expect(disk.detail).toMatch(/free for \/dev\/shm|^\S+ GB \(\d %\) free for \S+elsewhere\./)
})

test.each([
  [
    0.4,
    true,
    'fail',
    /0\.4 GB \(0 %\) free for \/x\. When the disk is full nothing is accepted any more: make room, or keep/,
  ],
  [
    0.4,
    false,
    'fail',
    /When the disk is full this node delivers nothing any more: make room\. The disk of the database server/,
  ],
  [1.9, true, 'warn', /Make room, or keep things for a shorter time \(POSTHORN_KEEP_\.\.\.\)\.$/],
  [
    9,
    false,
    'warn',
    /9\.0 GB \(9 %\) free for \/x\. Make room\. The disk of the database server of your own is not seen/,
  ],
  [50, true, 'ok', /^50\.0 GB \(50 %\) free for \/x\.$/],
] as const)('%s of 100 GB free, an embedded database: %s', (free, isEmbedded, status, said) => {
  const finding = judgeDisk({ folder: '/x', freeBytes: free * 1e9, bytes: 100e9 }, isEmbedded)
  expect(finding).toEqual({ status, detail: expect.stringMatching(said) as string })
})

test('a database that cannot be reached is one finding, and the others are still looked at', async () => {
  const checks = await found({ database: { trouble: 'connect ECONNREFUSED' } })
  expect(checks.database).toMatchObject({ status: 'fail', detail: expect.stringContaining('ECONNREFUSED') as string })
  expect(checks.queue.status).toBe('skipped')
  expect(checks.outbound.status).toBe('ok')
})

describe('what the node on this machine says of itself', () => {
  test.each([
    ['its disk does not take its mark', { ownStop: 'mark' }, 'fail', /sends nothing.*take its mark in .*Make room/],
    ['it could not compare itself', { ownStop: 'look' }, 'fail', /sends nothing.*what=fence/],
    ['its delivery process is silent', { answers: false }, 'fail', /delivery process .* does not answer/],
    ['nothing', {}, 'ok', /Nothing stops it/],
  ] as const)('%s', async (_, state, status, words) => {
    const readiness = watchReadiness(world.db, () => Promise.resolve({ answers: true, ...state }))
    const node = createHttpServer((request, response) => {
      if (request.url !== '/readyz') return void response.end('<>')
      void readiness().then((told) => response.end(JSON.stringify(told)))
    })
    await once(node.listen(0, '127.0.0.1'), 'listening')
    const { port } = node.address() as AddressInfo
    const checks = await found({ settings: settings({ POSTHORN_METRICS_PORT: String(port) }) })
    node.close()
    expect(checks.delivery).toMatchObject({ status, detail: expect.stringMatching(words) as string })
  })

  test('somebody else listens there', async () => {
    const other = createHttpServer((_, response) => response.end('<>'))
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    const checks = await found({ settings: settings({ POSTHORN_METRICS_PORT: String(port) }) })
    other.close()
    expect(checks.delivery).toMatchObject({ status: 'ok' })
  })
})

describe('what is broken is found, and what to do is said', () => {
  const cases: [
    string,
    CheckName,
    'warn' | 'fail' | 'skipped',
    RegExp,
    () => Promise<Partial<DoctorTools>> | Partial<DoctorTools>,
  ][] = [
    [
      'a closed port 25',
      'outbound',
      'fail',
      /relay \(POSTHORN_ROUTE\)/,
      () => ({ settings: settings({ POSTHORN_MX_PORT: '1' }) }),
    ],
    [
      'a domain without mail hosts',
      'outbound',
      'fail',
      /POSTHORN_DNS_SERVERS/,
      () => ({ settings: settings({ POSTHORN_DOCTOR_DOMAIN: 'gone.example' }) }),
    ],
    [
      'a domain that takes no mail: no name server is to blame for the address of its null MX',
      'outbound',
      'fail',
      /^null\.example \(POSTHORN_DOCTOR_DOMAIN\) .*\(null MX\).*name another domain/,
      () => {
        dns.zone['null.example'] = { mx: [{ preference: 0, exchange: '.' }] }
        return { settings: settings({ POSTHORN_DOCTOR_DOMAIN: 'null.example' }) }
      },
    ],
    [
      'a relay that is away',
      'outbound',
      'fail',
      /relay 127\.0\.0\.1:1 does not answer as a mail server \(connect: connect_failed\)/,
      () => {
        seen = { welcome: false, phase: 'connect', trouble: 'connect_failed' }
        return { settings: settings({ POSTHORN_ROUTE: 'smtp://127.0.0.1:1' }) }
      },
    ],
    [
      'a relay that does not take the login',
      'outbound',
      'fail',
      /does not take the login of me \(535 5\.7\.8 no \[2J\).*POSTHORN_ROUTE/,
      () => {
        seen = { welcome: false, phase: 'auth', reply: { code: 535, text: '5.7.8 no\u001b[2J' } }
        return { settings: settings({ POSTHORN_ROUTE: 'smtp://me:word@relay.example' }) }
      },
    ],
    [
      'a relay whose certificate is not good',
      'outbound',
      'fail',
      /over TLS with a valid certificate for relay\.example \(tls_failed\)/,
      () => {
        seen = { welcome: false, phase: 'tls', trouble: 'tls_failed' }
        return { settings: settings({ POSTHORN_ROUTE: 'smtps://me:word@relay.example' }) }
      },
    ],
    [
      'name servers that do not answer: the way out',
      'outbound',
      'fail',
      /name servers did not answer.*POSTHORN_DNS_SERVERS/,
      () => ({ settings: settings({ POSTHORN_DNS_SERVERS: '127.0.0.1:1' }) }),
    ],
    [
      'mail hosts whose addresses nobody knows',
      'outbound',
      'fail',
      /mx1\.lost\.example: the name servers did not answer.*POSTHORN_DNS_SERVERS/,
      () => {
        dns.zone['lost.example'] = { mx: [{ preference: 10, exchange: 'mx1.lost.example' }] }
        dns.zone['mx1.lost.example'] = 'servfail'
        return { settings: settings({ POSTHORN_DOCTOR_DOMAIN: 'lost.example' }) }
      },
    ],
    [
      'name servers that do not answer: the host name',
      'hostname',
      'fail',
      /name servers did not answer.*POSTHORN_DNS_SERVERS/,
      () => ({ settings: settings({ POSTHORN_DNS_SERVERS: '127.0.0.1:1' }) }),
    ],
    [
      'a reverse name that cannot be looked up',
      'hostname',
      'warn',
      /the reverse name of 127\.0\.0\.2 could not be looked up/i,
      () => {
        dns.zone['second.shop.example'] = { a: ['127.0.0.2'] }
        dns.zone['2.0.0.127.in-addr.arpa'] = 'servfail'
        return { settings: settings({ POSTHORN_HOSTNAME: 'second.shop.example' }) }
      },
    ],
    [
      'no SPF record of the host name',
      'hostname',
      'warn',
      /127\.0\.0\.3 and back, but has no SPF record/,
      () => {
        dns.zone['bare.shop.example'] = { a: ['127.0.0.3'], txt: ['something else'] }
        dns.zone['3.0.0.127.in-addr.arpa'] = { ptr: ['bare.shop.example'] }
        return { settings: settings({ POSTHORN_HOSTNAME: 'bare.shop.example' }) }
      },
    ],
    [
      'name servers that do not answer: DNSSEC',
      'dnssec',
      'warn',
      /name servers did not answer/,
      () => ({ settings: settings({ POSTHORN_DNS_SERVERS: '127.0.0.1:1' }) }),
    ],
    [
      'a short host name',
      'hostname',
      'fail',
      /no full name/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'vm' }) }),
    ],
    [
      'a short host name behind a relay, which is in the records of domains all the same',
      'hostname',
      'warn',
      /no full name, and it stands in return paths and in the DNS records that domains are given\. Set one/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'vm', POSTHORN_ROUTE: 'smtp://relay.example' }) }),
    ],
    [
      'a host name of the local network alone',
      'hostname',
      'fail',
      /laptop\.local is no full name/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'laptop.local' }) }),
    ],
    [
      'a short host name on the sandbox, before any harm is done',
      'hostname',
      'warn',
      /before you add a domain or send real mail/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'vm', POSTHORN_ROUTE: 'sandbox' }) }),
    ],
    [
      'a full host name on the sandbox',
      'hostname',
      'skipped',
      /nobody looks this name up yet/,
      () => ({ settings: settings({ POSTHORN_ROUTE: 'sandbox' }) }),
    ],
    [
      'a host name without an address',
      'hostname',
      'fail',
      /set an A record/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'other.shop.example' }) }),
    ],
    [
      'another reverse name',
      'hostname',
      'fail',
      /the reverse name of 127\.0\.0\.1 is mail\.shop\.example/,
      () => {
        dns.zone['alias.shop.example'] = { a: ['127.0.0.1'] }
        return { settings: settings({ POSTHORN_HOSTNAME: 'alias.shop.example' }) }
      },
    ],
    [
      'a resolver that validates nothing',
      'dnssec',
      'warn',
      /validating resolver/,
      () => ({ settings: settings({ POSTHORN_DNSSEC_PROBES: 'big.example,mx.big.example' }) }),
    ],
    [
      'a certificate for another name',
      'tls',
      'fail',
      /not for POSTHORN_HOSTNAME/,
      () => ({ settings: settings({ POSTHORN_HOSTNAME: 'alias.shop.example' }) }),
    ],
    [
      'a certificate that ended',
      'tls',
      'fail',
      /renew it/,
      () => ({ now: () => new Date(Date.now() + 4_000 * 86_400_000) }),
    ],
    [
      'a self-signed certificate whose ten years are nearly over',
      'tls',
      'warn',
      /self-signed certificate.* It is good until \d{4}-\d\d-\d\d: the first start after that makes another/,
      () => {
        const unset = { ...settings(), POSTHORN_TLS_CERT: undefined, POSTHORN_TLS_KEY: undefined }
        tlsCertificate(unset)
        return { settings: unset, now: () => new Date(Date.now() + 3_640 * 86_400_000) }
      },
    ],
    [
      'a certificate that is not there',
      'tls',
      'fail',
      /POSTHORN_TLS_CERT names \/nowhere\.pem, which does not exist/,
      () => ({ settings: settings({ POSTHORN_TLS_CERT: '/nowhere.pem' }) }),
    ],
    [
      'a certificate that is not there, of a node that takes only bounces: its next start fails, too',
      'tls',
      'fail',
      /POSTHORN_TLS_CERT names \/nowhere\.pem, which does not exist/,
      () => ({ settings: settings({ POSTHORN_TLS_CERT: '/nowhere.pem', POSTHORN_ROLES: 'feedback' }) }),
    ],
    [
      'a data folder that is none',
      'data_folder',
      'fail',
      /cannot be written/,
      () => ({ settings: settings({ POSTHORN_DATA_DIR: '/proc/nowhere', POSTHORN_SECRET_KEY: 'k'.repeat(32) }) }),
    ],
    [
      'a data folder that is not there, mostly that of no service',
      'data_folder',
      'fail',
      /cannot be written: it is not there\. If a service runs here, give the doctor its settings/,
      () => ({
        settings: settings({ POSTHORN_DATA_DIR: '/tmp/posthorn-never/made', POSTHORN_SECRET_KEY: 'k'.repeat(32) }),
      }),
    ],
    [
      'the disk of a data folder that is not there',
      'disk',
      'skipped',
      /is not there: see data_folder\.$/,
      () => ({
        settings: settings({ POSTHORN_DATA_DIR: '/tmp/posthorn-never/made', POSTHORN_SECRET_KEY: 'k'.repeat(32) }),
      }),
    ],
    [
      'a data folder that whoever owns it cannot write',
      'data_folder',
      'fail',
      /cannot be written \(ENAMETOOLONG\): its name is too long; .*the installation key\.$/,
      () => ({
        settings: settings({ POSTHORN_DATA_DIR: `/tmp/${'long'.repeat(70)}`, POSTHORN_SECRET_KEY: 'k'.repeat(32) }),
      }),
    ],
    [
      'a database that lies outside its data folder, in memory',
      'data_folder',
      'fail',
      /^\/dev\/shm lies in memory .* It holds the database of \S+elsewhere\.$/,
      () => ({ settings: settings({ POSTHORN_DATA_DIR: elsewhere(), POSTHORN_SECRET_KEY: 'k'.repeat(32) }) }),
    ],
    [
      'a container of half a gigabyte',
      'memory',
      'warn',
      /^0\.5 GB of memory: enough for small mail, but .* give it 1 GB/,
      () => ({ memoryBytes: 512 * 1024 * 1024 }),
    ],
    ['a clock that is off', 'clock', 'warn', /behind.*chrony/, () => ({ now: () => new Date(Date.now() + 60_000) })],
    [
      'a scanner that does not answer',
      'scanner',
      'fail',
      /answered 503/,
      () => ({ scanner: { facts: () => Promise.resolve({ description: 'ClamAV', trouble: 'refused' }) } }),
    ],
    [
      'a scanner whose signatures nobody renews',
      'scanner',
      'warn',
      /signatures 27000 \(Mon Nov 16 09:30:00 2026\): they are 8 days old.* freshclam/,
      () => ({
        scanner: {
          facts: () => Promise.resolve({ description: 'ClamAV', signatures: '27000 (Mon Nov 16 09:30:00 2026)' }),
        },
        now: () => new Date('2026-11-25T00:00:00Z'),
      }),
    ],
    [
      'a scanner without signatures',
      'scanner',
      'warn',
      /Install ClamAV/,
      () => ({ settings: settings({ POSTHORN_CLAMD: '' }), memoryBytes: 4e9 }),
    ],
    [
      'a machine on which ClamAV has no room',
      'scanner',
      'warn',
      /a ClamAV on another machine .* takes more than 1 GB, and this one has 1\.0 GB in all\.$/,
      () => ({ settings: settings({ POSTHORN_CLAMD: '' }), memoryBytes: 1e9 }),
    ],
    [
      'a key that is being rotated',
      'installation_key',
      'warn',
      /--finish/,
      () => ({
        settings: settings({ POSTHORN_SECRET_KEY: 'n'.repeat(32), POSTHORN_SECRET_KEYS_ACCEPTED: 'o'.repeat(32) }),
      }),
    ],
    [
      'a key that everybody on the machine may read, as one that was copied back from a backup',
      'installation_key',
      'warn',
      /^Whoever is logged in on this machine can read or replace \S+\/secret-key, .*: chmod 600 \S+\/secret-key; .* rotate-key\.$/,
      () => ({ settings: settings({ POSTHORN_DATA_DIR: openFolder() }) }),
    ],
    [
      'a broken domain',
      'domains',
      'warn',
      /1 degraded/,
      async () => {
        const { domainId } = await world.sender()
        await world.db.run(`update domains set status = 'degraded', degraded_at = now() where id = $1`, [domainId])
        return {}
      },
    ],
    [
      'zones that cannot be asked, while the own name servers answer',
      'domains',
      'warn',
      /open port 53 outwards/,
      async () => {
        await world.sender()
        dns.zone['far.example'] = { ns: ['ns.far.example'], mx: [{ preference: 10, exchange: 'mx.big.example' }] }
        dns.zone['ns.far.example'] = { a: ['127.0.0.1'] }
        return { settings: settings({ POSTHORN_DOCTOR_DOMAIN: 'far.example' }), zonePort: 1 }
      },
    ],
    [
      'zones that cannot be asked, where only a workspace has a route that leaves this machine',
      'domains',
      'warn',
      /open port 53 outwards/,
      async () => {
        const { workspaceId } = await world.sender()
        await world.db.run('update workspaces set route_sealed = $2 where id = $1', [
          workspaceId,
          vault.seal('mx', sealedAs.route(workspaceId)),
        ])
        dns.zone['far.example'] = { ns: ['ns.far.example'], mx: [{ preference: 10, exchange: 'mx.big.example' }] }
        dns.zone['ns.far.example'] = { a: ['127.0.0.1'] }
        const sandbox = { POSTHORN_ROUTE: 'sandbox', POSTHORN_DOCTOR_DOMAIN: 'far.example' }
        return { settings: settings(sandbox), zonePort: 1 }
      },
    ],
    [
      'a drain',
      'delivery',
      'warn',
      /posthorn drain --off/,
      async () => {
        await setDrain(world.db, true)
        return {}
      },
    ],
    [
      'mail that waits too long',
      'queue',
      'warn',
      /due for 60 minutes/,
      async () => {
        const sender = await world.sender()
        const [claim] = await world.claimed(sender, [{}])
        await world.db.run(
          `update outbound set status = 'queued', lease_until = null, lease_owner = null, token = null, due_at = now() - interval '1 hour'
            where message_id = $1`,
          [claim?.id],
        )
        return {}
      },
    ],
  ]
  test('a failover that a removed node never confirms: which one it is, and the way out', async () => {
    await world.db.run(
      `insert into delivering_nodes (id, name, counter, timeline, confirmed_at)
       values (gen_random_uuid(), 'mx1.gone.example', 5, '00000001', app_now() - interval '2 days'),
              (gen_random_uuid(), 'mx2.here.example', 5, '00000002', app_now()),
              (gen_random_uuid(), 'mx3.forgotten.example', 5, '00000001', app_now() - interval '31 days')`,
    )
    await world.db.run(
      `insert into delivery_stops (kind, reason, facts) values ('pause', 'timeline', '{"timeline": "00000002"}')`,
    )
    const { delivery } = await found({})
    await world.db.run('delete from delivery_stops')
    await world.db.run('delete from delivering_nodes')
    expect(delivery?.status).toBe('warn')
    expect(delivery?.detail).toMatch(/waited for: mx1\.gone\.example, last seen \S+Z\).*posthorn recover --resume/)
  })

  test('relays of workspaces: each login is visited once, what is broken is told with whose it is, and not all if they are many', async () => {
    const routed = async (route: string, more = '') => {
      const { workspaceId } = await world.sender()
      const sealed = vault.seal(route, sealedAs.route(workspaceId))
      await world.db.run(`update workspaces set route_sealed = $2 ${more} where id = $1`, [workspaceId, sealed])
      return world.value<string>('select name from workspaces where id = $1', [workspaceId])
    }
    const asked: string[] = []
    const look = async () => {
      asked.length = 0
      const { workspace_routes: check } = await found({
        visit: ({ host, login }) => {
          asked.push(`${login?.user} ${host}`)
          const reply = { code: 535, text: '5.7.8 no' }
          return Promise.resolve({ welcome: host === 'good.example', phase: 'auth', reply })
        },
      })
      return check
    }
    await routed('mx')
    expect(await look()).toMatchObject({ status: 'skipped' })
    // What the route mx asks of this machine is looked at, though it is a workspace's alone.
    for (const route of ['sandbox', 'smtp://relay.example']) {
      const {
        outbound,
        hostname: name,
        dnssec,
      } = await found({
        settings: settings({ POSTHORN_ROUTE: route, POSTHORN_HOSTNAME: 'alias.shop.example' }),
      })
      expect(outbound.detail).toMatch(/answered on port \d+\.$/)
      expect([name.status, dnssec.status]).toEqual(['fail', 'ok'])
    }
    await routed('smtp://one:a@good.example')
    await routed('smtp://one:a@good.example')
    await routed('smtp://two:b@good.example')
    await routed('smtp://me:c@bad.example', `, status = 'blocked'`)
    expect(await look()).toMatchObject({
      status: 'ok',
      detail: 'Relays of workspaces that answered, and take their logins: 2.',
    })
    expect(asked.toSorted()).toEqual(['one good.example', 'two good.example'])
    const names = [await routed('smtp://me:secret@bad.example'), await routed('smtp://me:secret@bad.example')]
    const bad = await look()
    expect(bad).toMatchObject({ status: 'fail' })
    expect(bad?.detail).toContain('does not take the login of me (535 5.7.8 no)')
    expect(bad?.detail).toContain(`the route of ${names[0]} and 1 more (posthorn workspace set W --route -)`)
    expect(bad?.detail).not.toMatch(/secret|good\.example/)
    // One that was made by mistake keeps the check red until it is removed.
    for (const name of names) {
      const id = await world.value<WorkspaceId>('select id from workspaces where name = $1', [name])
      expect(await beginRemoval(world.db, id, 'operator:test')).toBe(true)
      if (name === names[0]) await carryOnRemoval(world.db, id, 'operator:test') // of the other it is under way
    }
    expect(await look()).toMatchObject({ status: 'ok' })
    for (let n = 0; n < limits.doctorRelaysVisited; n++) await routed(`smtp://u${n}:p@good.example`)
    expect((await look())?.detail).toMatch(/ Only 50 were visited\.$/)
    expect(asked).toHaveLength(limits.doctorRelaysVisited)
    await world.db.run('update workspaces set route_sealed = null')
  })

  test('a webhook endpoint that fails for a while or was disabled by itself, by its workspace; not one that somebody disabled, nor for ever', async () => {
    const look = async () => (await found()).webhooks
    expect(await look()).toMatchObject({ status: 'skipped' })
    const endpoint = async (
      state: string,
      reason: string | null,
      failingHours: number | null,
      disabledHours: number | null,
    ) => {
      const { workspaceId } = await world.sender()
      await world.db.run(
        `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed, state, reason, failing_since, disabled_at)
         values ($1, 'https://hooks.example/', '1', 'x', $2, $3, app_now() - $4 * interval '1 hour', app_now() - $5 * interval '1 hour')`,
        [workspaceId, state, reason, failingHours, disabledHours],
      )
      return world.value<string>('select name from workspaces where id = $1', [workspaceId])
    }
    await endpoint('active', null, null, null)
    await endpoint('active', null, 0.9, null)
    await endpoint('active', null, 8 * 24, null)
    await endpoint('disabled', 'by_hand', 3, 2)
    await endpoint('disabled', 'no_success', null, 8 * 24)
    expect(await look()).toMatchObject({ status: 'ok', detail: '3 active, 2 disabled.' })
    const fails = [await endpoint('active', null, 2, null), await endpoint('active', null, 30, null)]
    const gone = [await endpoint('disabled', 'receiver_gone', 2, 1), await endpoint('disabled', 'no_success', 130, 6)]
    const { status, detail } = await look()
    expect(status).toBe('warn')
    expect(detail).toMatch(/^5 active, 4 disabled\. No try has succeeded/)
    expect(detail).toContain(` in ${fails[1]}, ${fails[0]}: `)
    expect(detail).toContain(` in ${gone[1]}, ${gone[0]}: `)
    await world.db.run('delete from webhook_endpoints')
  })

  test('refusals by policy, by provider: not those of other kinds, the sandbox’s own, or mail from before', async () => {
    const { workspaceId } = await world.sender()
    const said = async (many: number, host: string, more: { class?: string; source?: string; hours?: number } = {}) =>
      world.db.run(
        `with mail as (
           select (left(uuid_floor(app_now() - $5 * interval '1 hour')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id
             from generate_series(1, $2::integer)),
         attempt as (
           insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
           select $1, id, 1, app_now(), 'x', json_build_object('smtp', json_build_object('host', $3::text)) from mail)
         insert into reports (workspace_id, message_id, sequence, type, bounce, source, created_at)
         select $1, id, 3, 'soft_bounce', json_build_object('class', $4::text), $6, app_now() from mail`,
        [workspaceId, many, host, more.class ?? 'policy', more.hours ?? 1, more.source ?? 'session'],
      )
    await said(40, 'gmail-smtp-in.l.google.com', { class: 'temporary' })
    await said(2, 'gmail-smtp-in.l.google.com')
    await said(9, 'localhost')
    await said(9, 'mx.old.example', { hours: 25 })
    expect((await found()).refusals).toEqual({
      name: 'refusals',
      status: 'ok',
      detail: '2 of the newest 42 answers about the mail of the last day refuse it by policy.',
    })
    await said(1, 'alt1.gmail-smtp-in.l.google.com')
    await said(4, 'relay.example.org', { source: 'dsn' })
    const { refusals } = await found()
    expect(refusals?.status).toBe('warn')
    expect(refusals?.detail).toMatch(
      /refused by policy .* at example\.org \(4 of 4 answers\), google \(3 of 43 answers\)\. posthorn message show [0-9a-f-]{36} tells/,
    )
    await world.db.run('delete from reports')
  })

  test.each(cases)('%s', async (_, name, status, words, spoil) => {
    const { [name]: check } = await found(await spoil())
    expect(check).toMatchObject({ status, detail: expect.stringMatching(words) as string })
    await setDrain(world.db, false)
  })

  test('a session that holds a lock for which statements of ours wait is named, and how to end it', async () => {
    const [left, waiting] = [await world.session(), await world.session()]
    await left.query(`set application_name = 'psql'`)
    await left.query('begin')
    await left.query('lock table outbound')
    const { rows } = await left.query<{ pid: number }>('select pg_backend_pid() pid')
    const waits = waiting.query('select count(*) from outbound')
    const behind = world.db.run('select count(*) from outbound') // waits, too, and holds up nobody
    await world.untilBlocked(waiting)
    expect((await checkDatabase(world.db, 3_600, 60_000)).status).toBe('ok')
    expect(await checkDatabase(world.db, 3_600, 0)).toMatchObject({
      status: 'warn',
      detail: expect.stringMatching(
        new RegExp(`somebody else holds \\(process ${rows[0]?.pid} of \\S+, psql\\).*pg_terminate_backend`),
      ) as string,
    })
    await left.query('commit')
    await Promise.all([waits, behind])
    expect((await checkDatabase(world.db, 3_600, 0)).status).toBe('ok')
  })

  test('housekeeping that has made no partitions for a week is told while there are some, and no more when it has', async () => {
    const at = (days: number) => world.setClock(new Date(Date.now() + days * 86_400_000).toISOString())
    try {
      await world.db.rows({ name: 'ahead', text: 'select partitions_ahead_1()' })
      await at(6)
      expect((await checkDatabase(world.db)).status).toBe('ok')
      // Contents have a partition for each two days, messages one for four weeks.
      await at(10)
      expect(await checkDatabase(world.db)).toMatchObject({
        status: 'warn',
        detail: expect.stringMatching(
          /no new partitions of .*contents.* \(they end on 20.*what=housekeeping/,
        ) as string,
      })
      await world.db.rows({ name: 'ahead', text: 'select partitions_ahead_1()' })
      expect((await checkDatabase(world.db)).status).toBe('ok')
    } finally {
      await world.setClock()
    }
  })

  test('a database whose disk is full answers every question, and yet the doctor says that mail is refused', async () => {
    const client = new Client(world.connection)
    await client.connect()
    const said = (code?: string) =>
      checkDatabase({
        ...world.db,
        transaction: async (work) => {
          if (code === undefined) return await world.db.transaction(work)
          throw Object.assign(new Error('could not write to file "base/pgsql_tmp/pgsql_tmp1.0"'), { code })
        },
      })
    const written = async () => {
      const { rows } = await client.query<{ bytes: number }>(
        'select temp_bytes::float8 bytes from pg_stat_database where datname = current_database()',
      )
      return rows[0]?.bytes ?? 0
    }
    try {
      const before = await written()
      expect((await said()).status).toBe('ok')
      await expect.poll(written, { timeout: 20_000 }).toBeGreaterThan(before + 4e6) // it was really asked for
      expect(await said('53100')).toMatchObject({
        status: 'fail',
        detail: expect.stringMatching(/disk is full: mail is refused/) as string,
      })
      expect((await said('53400')).status).toBe('ok')
    } finally {
      await client.end()
    }
  })

  test('that its disk is full is not hidden by what only warns', async () => {
    const crowded: Db = {
      ...world.db,
      run: async <Row extends object>(text: string, values?: readonly unknown[]) =>
        (await world.db.run<Row>(text, values)).map((row) =>
          'connectionsMax' in row ? { ...row, connectionsMax: 1 } : row,
        ),
    }
    const full = () => Promise.reject(Object.assign(new Error('could not write to file'), { code: '53100' }))
    expect(await checkDatabase(crowded)).toMatchObject({
      status: 'warn',
      detail: expect.stringContaining('Almost all connections are taken') as string,
    })
    expect(await checkDatabase({ ...crowded, transaction: full })).toMatchObject({
      status: 'fail',
      detail: expect.stringContaining('its disk is full') as string,
    })
  })

  test('a transaction that stays open, until it is ended', async () => {
    const client = new Client({ ...world.connection, application_name: 'forgotten' })
    await client.connect()
    try {
      await client.query('begin isolation level repeatable read')
      await client.query('select 1 from plans')
      // Others of the same server write too, and one of theirs may be older for a moment.
      const said = async () => await checkDatabase(world.db, 0)
      const detail = expect.stringMatching(/ \(process \d+ of \w+, forgotten\): until/) as string
      await expect.poll(said, { timeout: 60_000 }).toMatchObject({ status: 'warn', detail })
      expect(await checkDatabase(world.db)).toMatchObject({ status: 'ok' })
      await client.query('rollback')
      expect((await said()).detail).not.toContain('forgotten')
    } finally {
      await client.end()
    }
  })

  test('a domain that was taken as verified is told apart from one that the DNS has verified', async () => {
    await world.sender()
    const { domainId } = await world.sender()
    await world.db.run(`update domains set status = 'verified', degraded_at = null, vouched = id = $1`, [domainId])
    expect((await found({})).domains).toMatchObject({
      status: 'ok',
      detail: expect.stringMatching(
        /^\d+ verified \(1 of them by the word of `domain add --verified` or the first start, not by the DNS\)\.$/,
      ) as string,
    })
  })

  describe('the installation’s own mail comes from a domain that receivers can know', () => {
    const { domain, workspace } = sender
    const first = { ...sender, domain: { ...domain, vouched: true, dkimSeen: false } }
    const at = (name: string) => ({ ...first, address: `no-reply@${name}`, domain: { ...first.domain, name } })
    type Case = readonly [string, Check['status'], RegExp, SeenSender | undefined, Readonly<Record<string, string>>?]
    const cases: readonly Case[] = [
      ['verified by the DNS', 'ok', /^Password resets, .* come from no-reply@shop\.de\.$/, sender],
      ['by the word, and its key was seen', 'ok', /shop\.de\.$/, { ...first, domain: { ...domain, vouched: true } }],
      [
        'the first start’s, from before POSTHORN_HOSTNAME was set',
        'fail',
        /domain add Posthorn .*POSTHORN_SYSTEM_MAILBOX/,
        at('posthorn.localhost'),
      ],
      ...['shop.test', 'mail.example', 'example.com', 'mail.example.org', 'a.invalid', 'mta.local', 'mta.internal'].map(
        (name): Case => [name, 'fail', /a name that nobody can have/, at(name)],
      ),
      [
        'an example that the DNS has verified',
        'ok',
        /example\.org/,
        { ...at('example.org'), domain: { ...domain, name: 'example.org' } },
      ],
      [
        'by the first start’s word alone',
        'warn',
        /posthorn domain list Posthorn .*domain unvouch Posthorn shop\.de/,
        first,
      ],
      [
        'of a workspace whose name a shell would take apart',
        'warn',
        /domain list w .* unvouch w shop/,
        { ...first, workspace: { ...workspace, name: 'My $(mail)' } },
      ],
      [
        'broken since a while',
        'warn',
        /is degraded: 72 hours/,
        { ...sender, domain: { ...domain, status: 'degraded' } },
      ],
      [
        'failed',
        'fail',
        /none is sent, because shop\.de is failed/,
        { ...sender, domain: { ...domain, status: 'failed' } },
      ],
      [
        'pending, and the mailbox named by its id',
        'fail',
        /shop\.de is pending/,
        { ...sender, domain: { ...domain, status: 'pending' } },
      ],
      ['disabled', 'fail', /the mailbox is disabled/, { ...sender, mailbox: 'disabled' }],
      [
        'blocked',
        'fail',
        /posthorn workspace set Posthorn --status active/,
        { ...sender, workspace: { ...workspace, status: 'blocked' } },
      ],
      ['in the sandbox', 'skipped', /sandbox/, at('posthorn.localhost'), { POSTHORN_ROUTE: 'sandbox' }],
      [
        'whose workspace has the sandbox as its route',
        'skipped',
        /sandbox/,
        { ...at('posthorn.localhost'), workspace: { ...workspace, route: 'sandbox' } },
      ],
      [
        'whose workspace alone really sends',
        'fail',
        /nobody can have/,
        { ...at('posthorn.localhost'), workspace: { ...workspace, route: 'mx' } },
        { POSTHORN_ROUTE: 'sandbox' },
      ],
      ['that was never made', 'warn', /are not sent: there is no mailbox/, undefined],
      [
        'that is set and not there',
        'fail',
        /names me@shop\.de, and there is no such mailbox/,
        undefined,
        { POSTHORN_SYSTEM_MAILBOX: 'me@shop.de' },
      ],
    ]
    test.each(cases.map((each) => [each[0], each[1], each] as const))('%s: %s', async (_what, status, each) => {
      const [, , words, who, more = {}] = each
      const checks = await found({ settings: settings(more), systemSender: () => Promise.resolve(who) })
      expect(checks.system_mailbox).toMatchObject({ status, detail: expect.stringMatching(words) as string })
    })
  })

  test('a port 25 that swallows everything is told as such within the time of one check, however many mail hosts there are', async () => {
    const mute = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const hosts = ['a', 'b', 'c'].map((letter) => `${letter}.mute.example`)
    dns.zone['mute.example'] = { mx: hosts.map((exchange) => ({ preference: 10, exchange })) }
    for (const host of hosts) dns.zone[host] = { a: ['127.0.0.1'] }
    const more = {
      POSTHORN_DOCTOR_DOMAIN: 'mute.example',
      POSTHORN_MX_PORT: String((mute.address() as AddressInfo).port),
    }
    const { outbound } = await found({ settings: settings(more), checkMs: 4_000 })
    expect(outbound.detail).toMatch(/a\.mute\.example: no answer; .*relay \(POSTHORN_ROUTE\)/)
    mute.close()
  })

  test('a machine from which IPv6 alone leads to mail hosts is not told that port 25 is closed, but whom it cannot reach', async () => {
    const overIpv6 = createServer((socket) => socket.on('error', () => undefined).end('220 mx.test hello\r\n'))
    await once(overIpv6.listen(0, '::1'), 'listening')
    dns.zone['six.example'] = { mx: [{ preference: 10, exchange: 'mx.six.example' }] }
    dns.zone['mx.six.example'] = { a: ['127.0.0.1'], aaaa: ['::1'] }
    const more = {
      POSTHORN_DOCTOR_DOMAIN: 'six.example',
      POSTHORN_MX_PORT: String((overIpv6.address() as AddressInfo).port),
    }
    const { outbound } = await found({ settings: settings(more) })
    expect([outbound.status, outbound.detail]).toEqual([
      'warn',
      expect.stringMatching(/over IPv6 alone \(over IPv4: mx\.six\.example: ECONNREFUSED\).*relay \(POSTHORN_ROUTE\)/),
    ])
    overIpv6.close()
  })

  test('a check that hangs does not keep the others', async () => {
    const never = { facts: () => new Promise<never>(() => undefined) }
    const began = performance.now()
    const checks = await examineBriefly(never)
    expect(checks.find(({ name }) => name === 'scanner')).toMatchObject({
      status: 'fail',
      detail: expect.stringMatching(/no answer within/) as string,
    })
    expect(performance.now() - began).toBeLessThan(5_000)
  })
  const examineBriefly = (hanging: DoctorTools['scanner']) =>
    examine({
      settings: settings(),
      database: { db: world.db, vault },
      scanner: hanging,
      visit,
      systemSender,
      providerOf,
      checkMs: 1_000,
    })
})

test('the command answers as the contract says, also without a database', () => {
  const command = join(import.meta.dirname, '../../bin/posthorn')
  const env = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    POSTHORN_DATA_DIR: folder,
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    POSTHORN_SECRET_KEY: 'k'.repeat(32),
  }
  const { checks } = JSON.parse(execFileSync(command, ['doctor', '--json'], { env, encoding: 'utf8' })) as {
    checks: Check[]
  }
  expect(checks.map(({ name }) => name)).toEqual(checkNames)
  expect(checks[0]).toMatchObject({ name: 'database', status: 'fail' })
})

test.each([
  ['192.0.2.7', '7.2.0.192.in-addr.arpa'],
  ['2001:db8::1', '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa'],
])('the reverse name of %s', (address, name) => {
  expect(reverseName(address)).toBe(name)
})
