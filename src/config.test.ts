import * as fc from 'fast-check'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { settingsPage } from './config-page.ts'
import {
  parseRoute,
  publicUrl,
  readSettings,
  roleNames,
  settingTable,
  submissionServer,
  WrongSettings,
} from './config.ts'

/** What the start would say about this environment. */
function mistakes(environment: Record<string, string>): string[] {
  try {
    readSettings(environment)
    return []
  } catch (error) {
    if (!(error instanceof WrongSettings)) throw error
    return error.message.split('\n')
  }
}

test('who keeps records for a shorter time alone is told what goes with them, and both ways out', () => {
  expect(mistakes({ POSTHORN_KEEP_RECORDS_DAYS: '14' })).toEqual([
    'POSTHORN_KEEP_EVENTS_DAYS is 30, but records go after 14 days: set it to 14 or less, or raise POSTHORN_KEEP_RECORDS_DAYS',
  ])
})

describe('where programs are told to hand mail in over SMTP', () => {
  test('in production: the name of the certificate, and the ports that are published', () => {
    const production = {
      POSTHORN_PUBLIC_URL: 'https://post.example.org',
      POSTHORN_HOSTNAME: 'mail.example.org',
      POSTHORN_SMTP_PUBLIC_PORT: '587',
      POSTHORN_SMTPS_PUBLIC_PORT: '465',
    }
    expect(submissionServer(readSettings(production))).toEqual({ host: 'mail.example.org', port: 587, tlsPort: 465 })
  })

  test('without: this machine, and the ports that are listened on', () => {
    const given = { POSTHORN_HOSTNAME: 'laptop', POSTHORN_SMTP_PORT: '9587', POSTHORN_SMTPS_PORT: '9465' }
    expect(submissionServer(readSettings(given))).toEqual({ host: 'localhost', port: 9587, tlsPort: 9465 })
  })

  test('a port that is told is one that can be connected to', () => {
    expect(mistakes({ POSTHORN_SMTP_PUBLIC_PORT: '0' })).toEqual([
      'POSTHORN_SMTP_PUBLIC_PORT must be a port from 1 to 65535',
    ])
  })

  test('and so is that of the mail hosts', () => {
    expect(mistakes({ POSTHORN_MX_PORT: '0' })).toEqual(['POSTHORN_MX_PORT must be a port from 1 to 65535'])
  })
})

describe('reading the environment', () => {
  test('an empty environment gives the defaults of the operating contract', () => {
    const settings = readSettings({})
    expect(settings).toMatchObject({
      POSTHORN_ROLES: roleNames,
      POSTHORN_HTTP_HOST: '127.0.0.1',
      POSTHORN_HTTP_PORT: 3000,
      POSTHORN_SMTP_PORT: 2587,
      POSTHORN_SMTPS_PORT: 2465,
      POSTHORN_FEEDBACK_PORT: 2525,
      POSTHORN_METRICS_PORT: 9464,
      POSTHORN_ROUTE: { kind: 'sandbox' },
      POSTHORN_MX_PORT: 25,
      POSTHORN_ALLOW_PRIVATE_MX: false,
      POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false,
      POSTHORN_LEASE_SECONDS: 60,
      POSTHORN_RETRY_SCHEDULE: [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800],
      POSTHORN_TIME_SCALE: 1,
      POSTHORN_SMTP_TIMEOUT_SCALE: 1,
      POSTHORN_LOG_LEVEL: 'info',
    })
    expect(settings.DATABASE_URL).toBeUndefined()
    expect(settings.POSTHORN_DATA_DIR).toMatch(/\/data$/)
    expect(publicUrl(settings)).toBe('http://localhost:3000')
  })

  test('an empty value counts as unset', () => {
    const names = Object.keys(settingTable)
    expect(readSettings(Object.fromEntries(names.map((name) => [name, ''])))).toEqual(readSettings({}))
  })

  test('all mistakes are told together, one line each, in the order of the table', () => {
    const said = mistakes({
      POSTHORN_HTTP_PORT: '70000',
      POSTHORN_ROLES: 'api,cook',
      POSTHORN_ALLOW_PRIVATE_MX: 'yes',
      POSTHORN_LEASE_SECONDS: '-1',
      POSTHORN_LOG_LEVEL: 'loud',
      POSTHORN_TLS_CERT: '/cert.pem',
      POSTHORN_HTPP_PORT: '3000',
    })
    expect(said.map((line) => line.split(' ')[0])).toEqual([
      'POSTHORN_ROLES',
      'POSTHORN_HTTP_PORT',
      'POSTHORN_ALLOW_PRIVATE_MX',
      'POSTHORN_LEASE_SECONDS',
      'POSTHORN_LOG_LEVEL',
      'POSTHORN_HTPP_PORT',
      'POSTHORN_TLS_CERT',
    ])
  })

  test.each([
    ['POSTHORN_HTTP_PORT', ['0', '65535'], ['-1', '65536', '1e3', ' 80']],
    ['POSTHORN_KEEP_AUDIT_DAYS', ['1', '36500'], ['0', '36501', '1.5', '-7']],
    ['POSTHORN_LEASE_SECONDS', ['1', '86400'], ['0.9', '86401', 'NaN']],
  ])('the ends of %s are what it says, and what is beyond them is a mistake', (name, right, wrong) => {
    for (const value of right) expect(mistakes({ [name]: value })).toEqual([])
    for (const value of wrong) expect(mistakes({ [name]: value })).toEqual([expect.stringContaining(`${name} must be`)])
  })

  test('a name that begins with POSTHORN_ and is no setting is a mistake; the names of others are not ours to judge', () => {
    expect(mistakes({ POSTHORN_TYPO: '3000', PORT: 'x', MY_POSTHORN_PORT: 'x' })).toEqual([
      'POSTHORN_TYPO is not a setting; docs/config.md lists them',
    ])
  })

  test.each([
    ['POSTHORN_DATA', ['POSTHORN_DATA_DIR']],
    ['POSTHORN_PORT', ['HTTP', 'SMTP', 'SMTPS', 'FEEDBACK'].map((name) => `POSTHORN_${name}_PORT`)],
    ['POSTHORN_SMTP', ['POSTHORN_SMTP_HOST', 'POSTHORN_SMTP_PORT', 'POSTHORN_SMTP_PROXIES']],
    ['POSTHORN_HTPP_PORT', ['POSTHORN_HTTP_PORT']],
    ['POSTHORN_LOGLEVEL', ['POSTHORN_LOG_LEVEL']],
    ['POSTHORN_DATABASE_URL', ['DATABASE_URL']],
    ['POSTHORN_CLAMAV', ['POSTHORN_CLAMD']],
    ['POSTHORN_HTTP_LISTEN_PORT', ['POSTHORN_HTTP_PORT']],
    ['posthorn_route', ['POSTHORN_ROUTE']],
  ])('an unknown name that is nearly a known one names it: %s', (name, meant) => {
    expect(mistakes({ [name]: '1' })).toEqual([
      `${name} is not a setting; did you mean ${meant.join(' or ')}? docs/config.md lists them`,
    ])
  })

  test('what Kubernetes tells a pod of a service named posthorn, or posthorn-smtp, is told as that', () => {
    const told = {
      POSTHORN_SERVICE_HOST: '10.0.0.1',
      POSTHORN_SERVICE_PORT_HTTP: '3000',
      POSTHORN_PORT: 'tcp://10.0.0.1:3000',
      POSTHORN_PORT_3000_TCP_PROTO: 'tcp',
      POSTHORN_SMTP_PORT: 'tcp://10.0.0.2:2587',
    }
    const said = mistakes(told)
    expect(said).toHaveLength(5)
    for (const line of said) expect(line).toMatch(/^POSTHORN_\w+ comes from Kubernetes.* enableServiceLinks: false/)
  })

  test('a role that is none is named, among those that are', () => {
    expect(mistakes({ POSTHORN_ROLES: 'api, smpt' })).toEqual([
      'POSTHORN_ROLES has "smpt": it must be all, or a comma list of api, smtp, deliver, feedback, webhooks',
    ])
  })

  test('DATABASE_URL demands the key that encrypts what is stored there', () => {
    const url = 'postgres://user:word@db.example:5432/posthorn'
    expect(mistakes({ DATABASE_URL: url })).toEqual([expect.stringMatching(/^POSTHORN_SECRET_KEY is required/)])
    // One that is wrong is there.
    expect(mistakes({ DATABASE_URL: url, POSTHORN_SECRET_KEY: 'k'.repeat(31) })).toEqual([
      expect.stringMatching(/^POSTHORN_SECRET_KEY must be at least 32 characters/),
    ])
    for (const right of [url, 'postgres://u:a,b@h/db?sslmode=require', 'postgres://%2Frun%2Fpostgresql/db'])
      expect(mistakes({ DATABASE_URL: right, POSTHORN_SECRET_KEY: 'k'.repeat(32) })).toEqual([])
  })

  test.each([
    ['postgres://u:p@host:99999/db', 'has a port that is none: a port is a number from 1 to 65535'],
    ['postgres://u:p@host:abc/db', 'has a port that is none: a port is a number from 1 to 65535'],
    ['postgres://host:0/db', 'has a port that is none: a port is a number from 1 to 65535'],
    ['postgres://u:p@[::1]:x/db', 'has a port that is none: a port is a number from 1 to 65535'],
    ['postgres://u:p@/db?host=/run&port=70000', 'has a port that is none: a port is a number from 1 to 65535'],
    ['postgres://u:secret', 'has a port that is none: a port is a number from 1 to 65535'],
    // What looks like a port is the beginning of a password.
    ['postgres://u:wo/rd@host/db', expect.stringMatching(/^cannot be read: .* \/ %2F/)],
    ['postgres://u:a@b:c/d@host/db', expect.stringMatching(/^cannot be read: .* \/ %2F/)],
    ['postgres://u:p@ho st/db', expect.stringMatching(/^cannot be read: the host is a name or an address/)],
    ['postgres://u:1234?x@host/db', expect.stringMatching(/^cannot be read: .* \? %3F/)],
    // What the driver passes over, or takes for more than what we ask of each connection.
    ...[
      'dbname=other',
      'require_auth=scram-sha-256',
      'sslcrl=/crl.pem',
      'statement_timeout=5',
      'query_timeout=5',
      'schema=mail',
    ].map((parameter): [string, unknown] => [
      `postgres://u:p@host/db?${parameter}`,
      expect.stringMatching(`^has ${parameter.replace(/=.*/, '')}, which nobody heeds here: take it away`),
    ]),
    [
      'postgres://u:p@host/db?sslmode=verify-full&sslmode=off',
      'has the sslmode "off", and must have one of disable, no-verify, prefer, require, verify-ca, verify-full',
    ],
    [
      'postgres://u:p@host/db?target_session_attrs=standby',
      'has the target_session_attrs "standby", and must have one of any, read-write, primary',
    ],
    ['postgres://u:p@host/db?target_session_attrs=read-write', undefined],
    ...['', '&sslmode=disable', '&sslmode=no-verify', '&sslmode=require&uselibpqcompat=true'].map(
      (tls): [string, unknown] => [
        `postgres://u:p@host/db?channel_binding=require${tls}`,
        'has channel_binding=require, and needs sslmode=verify-full with it',
      ],
    ),
    ['postgres://u:p@host/db?sslmode=require&channel_binding=require', undefined],
    ['postgres://u:p@host/db?sslrootcert=system&channel_binding=require', undefined],
    [
      'postgres://u:p@host/db?sslrootcert=system&sslmode=require',
      'has sslrootcert=system, and needs sslmode=verify-full with it',
    ],
    ['postgres://u:p@host/db?connect_timeout=10&keepalives_idle=30&gssencmode=disable&client_encoding=UTF8', undefined],
    ['postgres://u:p@host:5432/a@b', undefined],
    ['postgres://u:p@host:/db', undefined],
  ])('what is wrong with DATABASE_URL is told of the part that it is about: %s', (url, words: unknown) => {
    const [said] = mistakes({ DATABASE_URL: url, POSTHORN_SECRET_KEY: 'k'.repeat(32) })
    expect(said?.replace(/^DATABASE_URL /, '')).toEqual(words)
  })

  test('a certificate and its key belong together', () => {
    expect(mistakes({ POSTHORN_TLS_KEY: '/key.pem' })).toHaveLength(1)
    expect(mistakes({ POSTHORN_TLS_KEY: '/key.pem', POSTHORN_TLS_CERT: '/cert.pem' })).toEqual([])
  })

  const wrong: [string, string][] = [
    ['DATABASE_URL', 'mysql://host/db'],
    ['DATABASE_URL', 'not a url'],
    ['DATABASE_URL', 'postgres://user:wo/rd@host/db'],
    ['DATABASE_URL', 'postgres://us%er:word@host/db'],
    ['DATABASE_URL', 'postgres://user:wo%rd@host/db'],
    ['DATABASE_URL', 'postgres://user:word@one,two/db'],
    ['DATABASE_URL', 'postgres://user:word@one:5432,two:5432/db'],
    ['DATABASE_URL', 'postgres://user:word@/db?host=one,two'],
    ['DATABASE_URL', 'postgres://user:word@host/db?sslmode=requird'],
    ['POSTHORN_SECRET_KEY', 'too short'],
    ['POSTHORN_HTTP_PORT', ''.padEnd(6, '1')],
    ['POSTHORN_HTTP_PORT', '-1'],
    ['POSTHORN_HTTP_PORT', '80.5'],
    ['POSTHORN_HTTP_PORT', '0x50'],
    ['POSTHORN_PUBLIC_URL', 'ftp://host'],
    ['POSTHORN_HTTP_HOST', ' '],
    ['POSTHORN_SMTP_HOST', '[::1]'],
    ['POSTHORN_FEEDBACK_HOST', 'http://localhost'],
    ['POSTHORN_PUBLIC_URL', 'https://host?x=1'],
    ['POSTHORN_PUBLIC_URL', 'https://host/#'],
    ['POSTHORN_PUBLIC_URL', 'https://user:word@host'],
    ['POSTHORN_PUBLIC_URL', 'https://host '],
    ['POSTHORN_TRUST_PROXY', '10.0.0.0/8,proxy.example'],
    ['POSTHORN_TRUST_PROXY', '10.0.0.0/33'],
    ['POSTHORN_TRUST_PROXY', '10.0.0.0/8/8'],
    ['POSTHORN_TRUST_PROXY', '::1/129'],
    ['POSTHORN_HOSTNAME', 'mail..example'],
    ['POSTHORN_HOSTNAME', 'mail-.example'],
    ['POSTHORN_HOSTNAME', `${'m'.repeat(64)}.example`],
    ['POSTHORN_HOSTNAME', '192.0.2.1'],
    ['POSTHORN_HOSTNAME', '-mail.example'],
    ['POSTHORN_HOSTNAME', 'mail example'],
    ['POSTHORN_ROUTE', 'pigeon'],
    ['POSTHORN_ROUTE', 'http://relay.example'],
    ['POSTHORN_DNS_SERVERS', 'dns.example:53'],
    ['POSTHORN_DNS_SERVERS', '127.0.0.1:0'],
    ['POSTHORN_DNS_SERVERS', '127.0.0.1:65536'],
    ['POSTHORN_CLAMD', 'clamd.example:3310'],
    ['POSTHORN_CLAMD', 'unix:/%zz'],
    ['POSTHORN_LEASE_SECONDS', '0.5'],
    ['POSTHORN_RETRY_SCHEDULE', '60'],
    ['POSTHORN_RETRY_SCHEDULE', '1m,,5m'],
    ['POSTHORN_RETRY_SCHEDULE', '0s'],
    ['POSTHORN_RETRY_SCHEDULE', '1d'],
    ['POSTHORN_RETRY_SCHEDULE', '23h,2h'],
    ['POSTHORN_RETRY_SCHEDULE', Array(51).fill('1s').join()],
    ['POSTHORN_TIME_SCALE', '0'],
    ['POSTHORN_TIME_SCALE', 'fast'],
    ['POSTHORN_LEASE_SECONDS', '86401'],
  ]
  test.each(wrong)('%s=%s is refused by its name', (name, value) => {
    const said = mistakes({ [name]: value }).filter((line) => line.startsWith(`${name} `))
    expect(said).toHaveLength(1)
  })

  const right: [keyof typeof settingTable, string, unknown][] = [
    ['POSTHORN_ROLES', 'api, deliver', ['api', 'deliver']],
    ['POSTHORN_ROLES', 'api,deliver,api', ['api', 'deliver']],
    ['POSTHORN_ROLES', 'all', roleNames],
    ['POSTHORN_HTTP_PORT', '0', 0],
    ['POSTHORN_PUBLIC_URL', 'https://mail.example/', 'https://mail.example'],
    ['POSTHORN_TRUST_PROXY', '10.0.0.0/8, ::1', ['10.0.0.0/8', '::1']],
    ['POSTHORN_TRUST_PROXY', '::/0,192.0.2.1/32', ['::/0', '192.0.2.1/32']],
    ['POSTHORN_HTTP_HOST', 'fe80::1%eth0', 'fe80::1%eth0'],
    ['POSTHORN_HTTP_HOST', 'my_proxy.internal', 'my_proxy.internal'],
    ['POSTHORN_HOSTNAME', 'Mail.Example', 'mail.example'],
    ['POSTHORN_DNS_SERVERS', '127.0.0.1:5353,[::1]:53', ['127.0.0.1:5353', '[::1]:53']],
    ['POSTHORN_CLAMD', 'unix:/run/clamd.sock', { path: '/run/clamd.sock' }],
    ['POSTHORN_CLAMD', 'tcp://scan.example', { host: 'scan.example', port: 3310 }],
    ['POSTHORN_CLAMD', 'tcp://[::1]:33', { host: '::1', port: 33 }],
    ['POSTHORN_ALLOW_PRIVATE_MX', 'true', true],
    ['POSTHORN_RETRY_SCHEDULE', '30s, 5m,1h', [30, 300, 3_600]],
    ['POSTHORN_TIME_SCALE', '1000', 1000],
    ['POSTHORN_SECRET_KEYS_ACCEPTED', 'k'.repeat(32), ['k'.repeat(32)]],
    [
      'POSTHORN_SECRET_KEYS_ACCEPTED',
      `${'k'.repeat(32)}, ${'m'.repeat(32)}`,
      ['k'.repeat(32), 'm'.repeat(32), `${'k'.repeat(32)}, ${'m'.repeat(32)}`],
    ],
  ]
  test.each(right)('%s=%s is understood', (name, value, meaning) => {
    expect(readSettings({ [name]: value })[name]).toEqual(meaning)
  })
})

test.each([
  ['127.0.0.1', 'http://localhost:3000'],
  ['0.0.0.0', 'http://localhost:3000'],
  ['::', 'http://localhost:3000'],
  ['::1', 'http://localhost:3000'],
  ['192.0.2.7', 'http://192.0.2.7:3000'],
  ['2001:db8::7', 'http://[2001:db8::7]:3000'],
  ['fe80::1%eth0', 'http://localhost:3000'],
  ['post.internal', 'http://post.internal:3000'],
])('links come from host and port: %s', (host, url) => {
  expect(publicUrl(readSettings({ POSTHORN_HTTP_HOST: host }))).toBe(url)
})

describe('secrets', () => {
  const secrets = Object.entries(settingTable).filter(([, entry]) => 'secret' in entry)

  test('everything that can hold a password is marked as one', () => {
    expect(secrets.map(([name]) => name)).toEqual([
      'DATABASE_URL',
      'POSTHORN_SECRET_KEY',
      'POSTHORN_SECRET_KEYS_ACCEPTED',
      'POSTHORN_ROUTE',
    ])
  })

  test('no message about a wrong value repeats it, because it may be a password in the wrong place', () => {
    const hidden = fc.string({ minLength: 6, unit: fc.constantFrom('Q', 'X', 'Z', '7', '!', '%') })
    fc.assert(
      fc.property(fc.constantFrom(...secrets.map(([name]) => name)), hidden, (name, value) => {
        for (const given of [value, `ftp://user:${value}@host`, `:${value}`])
          for (const line of mistakes({ [name]: given })) expect(line).not.toContain(value)
      }),
    )
  })
})

describe('routes', () => {
  test.each([
    ['sandbox', { kind: 'sandbox' }],
    ['mx', { kind: 'mx' }],
    ['smtp://relay.example', { kind: 'relay', host: 'relay.example', port: 587, implicitTls: false }],
    ['smtps://relay.example', { kind: 'relay', host: 'relay.example', port: 465, implicitTls: true }],
    ['smtp://[::1]:2500', { kind: 'relay', host: '::1', port: 2500, implicitTls: false }],
    [
      'smtp://us%40er:p%3Ass@relay.example:25',
      {
        kind: 'relay',
        host: 'relay.example',
        port: 25,
        implicitTls: false,
        login: { user: 'us@er', password: 'p:ss' },
      },
    ],
  ])('%s', (text, route) => {
    expect(parseRoute(text)).toEqual(route)
  })

  test.each(['', 'MX', 'smtp://', 'smtp:relay.example', 'mailto:a@b.example', 'smtp://relay.example:99999'])(
    'refused: %s',
    (text) => {
      expect(() => parseRoute(text)).toThrow(/must be sandbox, mx, or a relay/)
    },
  )
})

test.each([
  ['smtp://me:4711#x@relay.example:587', 'cannot be read: user and password need percent codes'],
  ['smtps://me:12/34+5@relay.example:465', 'cannot be read: user and password need percent codes'],
  ['smtps://me:ab/34+5@relay.example:465', 'cannot be read: user and password need percent codes'],
  ['smtp://me:p?w@relay.example', 'cannot be read: user and password need percent codes'],
  ['smtp://relay.example/#x', 'may have nothing behind the host and port'],
  ['smtp://relay.example?tls=required#x', 'may have nothing behind the host and port'],
])('a login that would be taken for a host is no route: %s', (given, words) => {
  const [mistake] = mistakes({ POSTHORN_ROUTE: given })
  expect(mistake).toContain(words)
  expect(mistake).not.toMatch(/4711|34/)
})

test('a relay has a port, and the system mailbox an id or an address', () => {
  expect(() => parseRoute('smtp://relay.example:0')).toThrow('has no port between 1 and 65535')
  expect(mistakes({ POSTHORN_ROUTE: 'smtp://relay.example:0' })).toHaveLength(1)
  for (const value of ['garbage', 'a@b@c', '@', 'shop@ w1.example', '0190'])
    expect(mistakes({ POSTHORN_SYSTEM_MAILBOX: value })).toEqual([
      expect.stringContaining('the id or the address of a mailbox'),
    ])
  for (const value of ['shop@w1.example', '01900000-0000-7000-8000-000000000001'])
    expect(mistakes({ POSTHORN_SYSTEM_MAILBOX: value })).toEqual([])
})

describe('docs/config.md', () => {
  test('it is the table of config.ts (npm run golden renews it)', () => {
    expect(readFileSync(new URL('../docs/config.md', import.meta.url), 'utf8')).toBe(settingsPage())
  })

  test('no page tells of a setting that there is not, or has a program read a name that would stop the start', () => {
    const pages = [
      'README.md',
      'sdk/README.md',
      ...readdirSync(new URL('../docs', import.meta.url)).map((name) => `docs/${name}`),
    ]
    const told = pages
      .filter((page) => page.endsWith('.md'))
      .flatMap(
        (page) => readFileSync(new URL(`../${page}`, import.meta.url), 'utf8').match(/\bPOSTHORN_[A-Z_]+[A-Z]/g) ?? [],
      )
    // What Kubernetes tells of a service with our name, which docs/production.md warns of.
    const known = new Set([...Object.keys(settingTable), 'POSTHORN_PORT'])
    expect(told.filter((name) => !known.has(name))).toEqual([])
  })

  test('it names every setting once', () => {
    const named = [...settingsPage().matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name)
    expect(named).toEqual(Object.keys(settingTable))
  })
})
