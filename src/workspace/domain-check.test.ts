// Checks of domains against a name server of the tests' own, over a real database whose clock is moved.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startDnsServer, type DnsServer, type Name } from '../../test/world/dns-server.ts'
import { makeVault } from '../base/secret.ts'
import { makeZones } from '../base/zones.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { readSigningKeys } from '../store/signing-keys.ts'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'
import { makeDomainChecker, type DomainChange, type DomainChecker } from './domain-check.ts'
import { addDomain, endEd25519For, rotateDkimFor, unvouchDomain, type Domain } from './domains.ts'

const hostname = 'node.test'
const vault = makeVault(randomBytes(32).toString('base64'))
let world: StoreWorld
let dns: DnsServer
let workspace: WorkspaceId
let checker: DomainChecker
let told: DomainChange[]

beforeAll(async () => {
  ;[world, dns] = await Promise.all([storeWorld(), startDnsServer()])
  workspace = (await world.sender()).workspaceId
})
afterAll(() => Promise.all([world.close(), dns.stop()]))

beforeEach(async () => {
  for (const name of Object.keys(dns.zone)) delete dns.zone[name]
  told = []
  const tell = (change: DomainChange) => Promise.resolve(void told.push(change))
  const zones = makeZones({ servers: [dns.address], queryMs: 300 })
  checker = makeDomainChecker({ db: world.db, zones, hostname, tell })
  await world.setClock()
  await world.db.run('update domains set check_due_at = null')
})

const operator = () => ({ workspaceId: workspace, actor: 'operator:test', scopes: new Set<string>() })
let made = 0
const add = (verified = false): Promise<Domain> =>
  addDomain({ db: world.db, vault, hostname }, workspace, `d${++made}.example`, verified)
const check = async ({ id }: Domain): Promise<Domain> => (await checker.check(workspace, id)) as Domain
const set = (name: string, what: Name): void => void (dns.zone[name] = what)
/** What the owner of the zone copies into it. */
const publish = (domain: Domain, purposes = ['ownership', 'dkim', 'return_path']): void => {
  for (const { purpose, type, name, value } of domain.records)
    if (purposes.includes(purpose)) set(name, type === 'CNAME' ? { cname: value } : { txt: [value] })
}
const record = (domain: Domain, purpose: string) => domain.records.find((each) => each.purpose === purpose)
const clockAt = (domain: Domain, hours: number) =>
  world.setClock(new Date(domain.createdAt.getTime() + hours * 3600_000).toISOString())

describe('the life of a domain', () => {
  test('pending, verified, degraded while it is broken, failed after 72 hours, verified again', async () => {
    const domain = await add()
    await clockAt(domain, 0)
    expect(await check(domain)).toMatchObject({ status: 'pending', nextCheckAt: expect.any(Date) as Date })
    publish(domain)
    const verified = await check(domain)
    expect(verified).toMatchObject({ status: 'verified', returnPathHost: `bounces.${domain.name}` })
    expect(verified.records.map(({ purpose, status }) => `${purpose} ${status}`)).toEqual([
      'ownership verified',
      'dkim verified',
      'return_path verified',
      'dmarc advised',
    ])
    expect(verified.nextCheckAt?.getTime()).toBe(domain.createdAt.getTime() + 6 * 3600_000)

    const key = record(domain, 'dkim')?.name as string
    const kept = dns.zone[key] as Name
    delete dns.zone[key]
    await clockAt(domain, 7)
    expect(await check(domain)).toMatchObject({ status: 'degraded', brokenSince: expect.any(Date) as Date })
    await clockAt(domain, 7 + 71.9)
    expect(await check(domain)).toMatchObject({ status: 'degraded' })
    await clockAt(domain, 7 + 72)
    expect(await check(domain)).toMatchObject({ status: 'failed' })
    set(key, kept)
    await clockAt(domain, 200)
    const again = await check(domain)
    expect(again).toMatchObject({ status: 'verified' })
    expect(again.brokenSince).toBeUndefined()
    expect(told.map(({ from, domain: { status } }) => `${from} ${status}`)).toEqual([
      'pending verified',
      'verified degraded',
      'degraded failed',
      'failed verified',
    ])
  })

  test('a degraded domain that is mended is verified again, and its 72 hours begin anew the next time', async () => {
    const domain = await add()
    publish(domain)
    await clockAt(domain, 0)
    await check(domain)
    const owner = `_posthorn.${domain.name}`
    const kept = dns.zone[owner] as Name
    delete dns.zone[owner]
    await clockAt(domain, 10)
    await check(domain)
    set(owner, kept)
    await clockAt(domain, 50)
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    delete dns.zone[owner]
    await clockAt(domain, 90)
    expect(await check(domain)).toMatchObject({ status: 'degraded' })
  })

  test('silence changes nothing, and silence that lasts is a broken domain', async () => {
    const domain = await add()
    publish(domain)
    await check(domain)
    for (const name of Object.keys(dns.zone)) set(name, 'servfail')
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    expect(await check(domain)).toMatchObject({ status: 'verified', returnPathHost: `bounces.${domain.name}` })
    const third = await check(domain)
    expect(third).toMatchObject({ status: 'degraded' })
    expect(record(third, 'ownership')?.finding).toMatch(/did not answer/)
  })

  test('where nobody else answers either, the trouble is ours, and breaks no domain', async () => {
    const domain = await add()
    publish(domain)
    await check(domain)
    const kept = { ...dns.zone }
    for (const name of [...Object.keys(dns.zone), 'com']) set(name, 'servfail')
    try {
      for (let each = 0; each < 5; each++) expect(await check(domain)).toMatchObject({ status: 'verified' })
      // As soon as somebody does, the domain's own silence counts.
      delete dns.zone['com']
      expect(await check(domain)).toMatchObject({ status: 'degraded' })
      set('com', 'servfail')
      await clockAt(domain, 100)
      expect(await check(domain)).toMatchObject({ status: 'degraded' })
    } finally {
      delete dns.zone['com']
      for (const [name, is] of Object.entries(kept)) set(name, is)
    }
  })

  test('an operator’s word stands, and the check says what it sees', async () => {
    const domain = await add(true)
    expect(await check(domain)).toMatchObject({ status: 'verified', vouched: true })
    expect(record(await check(domain), 'ownership')).toMatchObject({ status: 'pending' })
    expect(await checker.checkDue()).toBe(0)
  })

  test('an operator’s word that is taken back leaves the state, and from then on the DNS decides', async () => {
    const take = (id: string) => unvouchDomain({ db: world.db, hostname }, operator(), id)
    const domain = await add(true)
    await clockAt(domain, 1)
    expect(await take(domain.id)).toMatchObject({ status: 'verified', vouched: false })
    expect(await checker.checkDue()).toBe(1)
    expect(told).toMatchObject([{ from: 'verified', domain: { name: domain.name, status: 'degraded' } }])
    await clockAt(domain, 74)
    expect(await check(domain)).toMatchObject({ status: 'failed' })
    publish(domain)
    expect(await check(domain)).toMatchObject({ status: 'verified', vouched: false })
    await expect(take(domain.id)).rejects.toThrow('nobody vouches')
    await expect(take(workspace)).rejects.toThrow('no such domain')
  })

  test.each([
    ['taken back', true],
    ['given', false],
  ])('an operator’s word that is %s while the DNS is asked counts', async (_name, before) => {
    const domain = await add(before)
    await world.db.run(`update domains set status = 'verified' where id = $1`, [domain.id])
    const operator = await world.session()
    await operator.query('begin')
    await operator.query('update domains set vouched = $2, check_due_at = $3 where id = $1', [
      domain.id,
      !before,
      before ? domain.createdAt : null,
    ])
    const checked = check(domain)
    const waiting = 'select count(*)::integer from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0'
    while ((await world.value<number>(`${waiting} and datname = current_database()`)) === 0) continue
    await operator.query('commit')
    const after = await checked
    expect(after).toMatchObject({ status: before ? 'degraded' : 'verified', vouched: !before })
    expect(after.nextCheckAt !== undefined).toBe(before)
  })

  test('a name of another workspace is not there', async () => {
    const domain = await add()
    const stranger = (await world.sender()).workspaceId
    expect(await checker.check(stranger, domain.id)).toBeUndefined()
  })
})

test('a domain whose return paths would be too long to be written is refused, and does not wait for records for ever', async () => {
  const labels = (many: number) => Array.from({ length: many }, () => 'a'.repeat(47)).join('.')
  const tools = { db: world.db, vault, hostname }
  await expect(addDomain(tools, workspace, `${labels(4)}.${'b'.repeat(6)}.test`, false)).rejects.toThrow(/too long/)
  const domain = await addDomain(tools, workspace, `${labels(4)}.test`, false)
  publish(domain)
  expect(await check(domain)).toMatchObject({ status: 'verified', returnPathHost: `bounces.${domain.name}` })
})

describe('the schedule', () => {
  test('what is due is checked once, by one node, and comes again later', async () => {
    const domain = await add()
    publish(domain)
    await world.db.run('update domains set check_due_at = app_now() where id = $1', [domain.id])
    const other = makeDomainChecker({ db: world.anotherNode(), zones: makeZones({ servers: [dns.address] }), hostname })
    const many = await Promise.all([checker.checkDue(), other.checkDue()])
    expect(many.toSorted()).toEqual([0, 1])
    expect(dns.asked.filter((each) => each === `TXT _posthorn.${domain.name}`)).toHaveLength(1)
    expect(await checker.checkDue()).toBe(0)
    await clockAt(domain, 6.1)
    expect(await checker.checkDue()).toBe(1)
  })

  test('a domain that nobody sets up is looked at less and less, and then no more', async () => {
    const domain = await add()
    const waits: (number | undefined)[] = []
    for (const hours of [0, 2, 30, 24 * 8, 24 * 31]) {
      await clockAt(domain, hours)
      const { nextCheckAt } = await check(domain)
      waits.push(nextCheckAt && (nextCheckAt.getTime() - domain.createdAt.getTime()) / 60_000 - hours * 60)
    }
    expect(waits.map((each) => each && Math.round(each))).toEqual([1, 10, 60, 360, undefined])
  })

  test('a node that dies in the middle leaves the domain to the next one', async () => {
    const domain = await add()
    await world.db.run('update domains set check_due_at = app_now() where id = $1', [domain.id])
    const { takeDueDomains } = await import('../store/domain-checks.ts')
    expect(await takeDueDomains(world.db, 300_000, { most: 10, mostOfOne: 10 })).toHaveLength(1) // and never writes
    expect(await checker.checkDue()).toBe(0)
    await clockAt(domain, 0.1)
    expect(await checker.checkDue()).toBe(1)
  })
})

test.each([
  ['vm', true],
  ['laptop.local', true],
  [hostname, false],
])(
  'the records name the host %s; where nobody else can find it, that is said before they are published, and not in the zone file',
  async (host, warned) => {
    const other = (await world.sender()).workspaceId
    const made = await addDomain({ db: world.db, vault, hostname: host }, other, 'new.example', true)
    const finding = expect.stringMatching(`^POSTHORN_HOSTNAME must be set first: .*"${host}"`)
    const waiting = made.records.filter(({ waitsFor }) => waitsFor !== undefined)
    expect(waiting).toEqual(
      warned ? [expect.objectContaining({ purpose: 'return_path', waitsFor: 'hostname', finding })] : [],
    )
    expect(made.zoneFile.includes('CNAME')).toBe(!warned)
    expect(made.zoneFile).toContain('_posthorn.new.example')
  },
)

test('a workspace with very many domains that are due has its turn, and the others theirs', async () => {
  const { takeDueDomains } = await import('../store/domain-checks.ts')
  const many = []
  for (let each = 0; each < 5; each++) many.push(await add())
  const other = (await world.sender()).workspaceId
  const late = await addDomain({ db: world.db, vault, hostname }, other, 'late.example', false)
  await world.db.run(`update domains set check_due_at = app_now() - interval '1 hour' where id = any ($1)`, [
    many.map(({ id }) => id),
  ])
  const taken = await takeDueDomains(world.db, 300_000, { most: 4, mostOfOne: 2 })
  expect(taken.map(({ workspace_id }) => workspace_id).toSorted()).toEqual([workspace, workspace, other].toSorted())
  expect(taken.map(({ id }) => id)).toContain(late.id)
  expect(await takeDueDomains(world.db, 300_000, { most: 4, mostOfOne: 2 })).toHaveLength(2)
})

describe('what is wrong is said in words', () => {
  const bounces = (domain: Domain) => `bounces.${domain.name}`

  test.each<[string, string, (domain: Domain) => void, RegExp]>([
    [
      'another value',
      'ownership',
      (d) => set(`_posthorn.${d.name}`, { txt: ['posthorn-verify=old'] }),
      /another value/,
    ],
    [
      'quotation marks',
      'ownership',
      (d) => set(`_posthorn.${d.name}`, { txt: [`"${record(d, 'ownership')?.value}"`] }),
      /quotation marks/,
    ],
    [
      'the domain twice',
      'ownership',
      (d) => set(`_posthorn.${d.name}.${d.name}`, { txt: [record(d, 'ownership')?.value as string] }),
      /appends the domain by itself. Enter "_posthorn"/,
    ],
    [
      'a key that is cut off',
      'dkim',
      (d) => set(record(d, 'dkim')?.name as string, { txt: [(record(d, 'dkim')?.value ?? '').slice(0, 250)] }),
      /cut off after/,
    ],
    [
      'an old key',
      'dkim',
      (d) => set(record(d, 'dkim')?.name as string, { txt: ['v=DKIM1; k=rsa; p=AAAA'] }),
      /old one/,
    ],
    ['a withdrawn key', 'dkim', (d) => set(record(d, 'dkim')?.name as string, { txt: ['v=DKIM1; p='] }), /withdrawn/],
    ['no key', 'dkim', (d) => set(record(d, 'dkim')?.name as string, { txt: ['hello'] }), /no DKIM key/],
    [
      'two keys',
      'dkim',
      (d) => set(record(d, 'dkim')?.name as string, { txt: ['v=DKIM1; p=AAAA', record(d, 'dkim')?.value as string] }),
      /Two DKIM keys/,
    ],
    ['a CNAME elsewhere', 'return_path', (d) => set(bounces(d), { cname: 'elsewhere.example' }), /leads elsewhere/],
    [
      'an MX without SPF',
      'return_path',
      (d) => set(bounces(d), { mx: [{ preference: 10, exchange: hostname }], txt: [] }),
      /no SPF record/,
    ],
    [
      'two SPF records',
      'return_path',
      (d) =>
        set(bounces(d), {
          mx: [{ preference: 10, exchange: hostname }],
          txt: ['v=spf1 -all', 'v=spf1 a:node.test -all'],
        }),
      /Two SPF records/,
    ],
    [
      'DMARC that only watches',
      'dmarc',
      (d) => set(`_dmarc.${d.name}`, { txt: ['v=DMARC1; p=none'] }),
      /p=none: receivers report/,
    ],
    [
      'DMARC without a policy, that asks for reports',
      'dmarc',
      (d) => set(`_dmarc.${d.name}`, { txt: ['v=DMARC1; rua=mailto:reports@example.org'] }),
      /receivers take it for p=none/,
    ],
    [
      'DMARC without a policy, that asks nobody',
      'dmarc',
      (d) => set(`_dmarc.${d.name}`, { txt: ['v=DMARC1; rua=reports'] }),
      /has no policy: p must be/,
    ],
    [
      'two DMARC records',
      'dmarc',
      (d) => set(`_dmarc.${d.name}`, { txt: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] }),
      /ignore both/,
    ],
    ['DMARC above', 'dmarc', () => set('_dmarc.example', { txt: ['v=DMARC1; p=reject'] }), /no DMARC record/],
  ])('%s', async (_, purpose, spoil, words) => {
    const domain = await add()
    spoil(domain)
    const checked = await check(domain)
    const findings = checked.records.filter((each) => each.purpose === purpose).map(({ finding }) => finding ?? '')
    expect(findings.join('\n')).toMatch(words)
    expect(checked.status).toBe('pending')
  })

  test('a return path by MX and SPF is as good as a CNAME, and its loss costs nothing but itself', async () => {
    const domain = await add()
    publish(domain, ['ownership', 'dkim'])
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    expect((await check(domain)).returnPathHost).toBeUndefined()
    set(bounces(domain), { mx: [{ preference: 10, exchange: 'node.test' }], txt: ['v=spf1 a:node.test -all'] })
    expect(await check(domain)).toMatchObject({ status: 'verified', returnPathHost: bounces(domain) })
    set(bounces(domain), { cname: 'gone.example' })
    const lost = await check(domain)
    expect(lost.returnPathHost).toBeUndefined()
    expect(lost.status).toBe('verified')
  })

  test('a CNAME may lead to us by way of other names, and whether SPF passes there is said', async () => {
    const domain = await add()
    publish(domain, ['ownership', 'dkim'])
    set(bounces(domain), { cname: 'mail.customer.example' })
    set('mail.customer.example', { cname: hostname })
    set(hostname, { a: ['192.0.2.1'] })
    const without = await check(domain)
    expect(without.returnPathHost).toBe(bounces(domain))
    expect(record(without, 'return_path')).toMatchObject({
      status: 'verified',
      finding: expect.stringMatching(/node\.test has no SPF record itself/) as string,
    })
    set(hostname, { a: ['192.0.2.1'], txt: ['v=spf1 a -all'] })
    expect(record(await check(domain), 'return_path')).not.toHaveProperty('finding')
  })

  test('a broken SPF record of the domain itself is mentioned, and hinders nothing', async () => {
    const domain = await add()
    publish(domain)
    set(domain.name, { txt: ['v=spf1 +all', 'v=spf1 -all'] })
    const checked = await check(domain)
    expect(checked.status).toBe('verified')
    expect(checked.advice.join()).toMatch(/Two SPF records/)
  })

  test('what strangers write is shown cut and without control characters', async () => {
    const domain = await add()
    set(`_posthorn.${domain.name}`, { txt: [`\u001b[2J${'x'.repeat(2_000)}`] })
    const { found } = record(await check(domain), 'ownership') ?? {}
    expect(found?.[0]?.length).toBeLessThanOrEqual(300)
    expect(found?.[0]).not.toContain('\u001b')
  })

  test('what strangers write is not cut into half a character: no backup with it would come back', async () => {
    const domain = await add()
    set(`_posthorn.${domain.name}`, { txt: [`${'x'.repeat(299)}📯`] })
    const { found } = record(await check(domain), 'ownership') ?? {}
    expect(found).toEqual([`${'x'.repeat(299)}\ufffd`])
  })

  test('the zone file has what is still to set, in strings that a zone can hold', async () => {
    const domain = await add()
    expect(domain.zoneFile.split('\n')).toHaveLength(4)
    for (const [, value] of domain.zoneFile.matchAll(/"([^"]*)"/g))
      expect((value as string).length).toBeLessThanOrEqual(255)
    publish(domain)
    expect((await check(domain)).zoneFile).toBe(`_dmarc.${domain.name}. 3600 IN TXT "v=DMARC1; p=none"`)
  })
})

describe('a new DKIM key', () => {
  /** Which one signs what is accepted now, and which ones sign at all. */
  const signing = async ({ id }: Domain) => (await readSigningKeys(world.db, workspace, id)).at(-1)?.selector
  const kept = async ({ id }: Domain) =>
    (await readSigningKeys(world.db, workspace, id)).map(({ selector }) => selector)
  const selectors = ({ records }: Domain) =>
    records.filter(({ purpose }) => purpose === 'dkim').map(({ name }) => name.split('.')[0])
  const rotate = ({ id }: Domain) => rotateDkimFor({ db: world.db, vault, hostname }, operator(), id)

  test('signs when its record is seen, not before; the old one stays in the DNS for a week', async () => {
    const domain = await add()
    publish(domain)
    await clockAt(domain, 0)
    await check(domain)
    const first = await signing(domain)
    const rotated = await rotate(domain)
    const keys = selectors(rotated)
    const second = keys[1]
    expect(keys).toEqual([first, expect.stringMatching(/^ph\d{6}-[a-z2-7]{4}$/)])
    expect((await rotate(domain)).records).toEqual(rotated.records) // asked twice, made once
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    expect(await signing(domain)).toBe(first)

    publish(rotated)
    await clockAt(domain, 1)
    const switched = await check(domain)
    expect(await signing(domain)).toBe(second)
    expect(switched.records.filter(({ purpose }) => purpose === 'dkim').map(({ status }) => status)).toEqual([
      'verified',
      'retiring',
    ])
    expect(await kept(domain)).toEqual([first, second])
    await clockAt(domain, 1 + 7 * 24 + 1)
    expect(await kept(domain)).toEqual([second]) // whenever it is looked at again
    const forgotten = await check(domain)
    expect(forgotten.records.filter(({ purpose }) => purpose === 'dkim')).toHaveLength(1)
    expect(forgotten.status).toBe('verified')
  })

  test('is looked for soon by itself, also of a domain that an operator vouched for', async () => {
    const domain = await add(true)
    await clockAt(domain, 1)
    const rotated = await rotate(domain)
    expect(await checker.checkDue()).toBe(1)
    expect(((await check(domain)).nextCheckAt?.getTime() ?? 0) - domain.createdAt.getTime()).toBe(1.25 * 3600_000)
    publish(rotated)
    await clockAt(domain, 2)
    expect(await checker.checkDue()).toBe(1)
    expect(await signing(domain)).toBe(selectors(rotated)[1])
    await clockAt(domain, 9 * 24)
    expect((await check(domain)).nextCheckAt).toBeDefined() // it has just been forgotten
    expect((await check(domain)).nextCheckAt).toBeUndefined()
  })

  test('saves a domain whose old record was taken away too early', async () => {
    const domain = await add()
    publish(domain)
    await check(domain)
    const rotated = await rotate(domain)
    publish(rotated)
    const second = selectors(rotated)[1]
    delete dns.zone[record(domain, 'dkim')?.name as string]
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    // Nobody could verify what the first one signs.
    expect(await kept(domain)).toEqual([second])
  })

  test('a record that is taken away within the week ends its key at the next check; name servers that are away end none', async () => {
    const domain = await add()
    publish(domain)
    await check(domain)
    const [first] = await kept(domain)
    const rotated = await rotate(domain)
    const second = selectors(rotated)[1]
    publish(rotated)
    await check(domain)
    const at = record(domain, 'dkim')?.name as string
    set(at, 'servfail')
    await check(domain)
    expect(await kept(domain)).toEqual([first, second])
    delete dns.zone[at]
    expect((await check(domain)).records.filter(({ purpose }) => purpose === 'dkim')).toHaveLength(1)
    expect(await kept(domain)).toEqual([second])
  })

  test('has a name of its own: a domain of two workspaces, or added again, sends with both keys, and none takes the place of another', async () => {
    const tools = { db: world.db, vault, hostname }
    const domain = await add()
    const { workspaceId: other } = await world.sender()
    const elsewhere = await addDomain(tools, other, domain.name, false)
    const texts = (purpose: string) => [domain, elsewhere].map((each) => record(each, purpose)?.value as string)
    publish(domain)
    publish(elsewhere)
    set(`_posthorn.${domain.name}`, { txt: texts('ownership') })
    expect(await check(domain)).toMatchObject({ status: 'verified' })
    expect(await checker.check(other, elsewhere.id)).toMatchObject({ status: 'verified' })
    const again = await addDomain(tools, (await world.sender()).workspaceId, domain.name, false)
    expect(new Set([domain, elsewhere, again].flatMap(selectors)).size).toBe(3)
  })

  // Before, both got the same name in the same month.
  test('is the way out where the key of another workspace stands at the same name: that one stays', async () => {
    const domain = await add()
    publish(domain)
    const at = record(domain, 'dkim')?.name as string
    set(at, { txt: ['v=DKIM1; k=rsa; p=AAAA'] })
    const spoilt = await check(domain)
    expect(spoilt.status).toBe('pending')
    expect(record(spoilt, 'dkim')?.finding).toContain('leave the record and make a new key here')
    const rotated = await rotate(domain)
    for (const { name, value } of rotated.records.slice(1, 3)) if (name !== at) set(name, { txt: [value] })
    const switched = await check(domain)
    expect(switched.status).toBe('verified')
    // And nobody is told to take the other one's record away.
    expect(selectors(switched)).toEqual([selectors(rotated)[1]])
  })
})

describe('an Ed25519 key beside the RSA key', () => {
  const end = ({ id }: Domain) => endEd25519For({ db: world.db, hostname }, operator(), id)
  const rotate = ({ id }: Domain, algorithm: 'rsa-sha256' | 'ed25519-sha256' = 'ed25519-sha256') =>
    rotateDkimFor({ db: world.db, vault, hostname }, operator(), id, algorithm)
  const signing = async ({ id }: Domain) =>
    (await readSigningKeys(world.db, workspace, id))
      .map(({ algorithm, retiredAt }) => `${algorithm.split('-')[0]}${retiredAt === null ? '' : ' retired'}`)
      .toSorted()
      .toReversed()
  const shown = ({ records }: Domain) =>
    records.filter(({ purpose }) => purpose.startsWith('dkim')).map(({ purpose, status }) => `${purpose} ${status}`)
  const verified = async (): Promise<Domain> => {
    const domain = await add()
    await clockAt(domain, 0)
    publish(domain)
    return check(domain)
  }
  /** With a key that signs. */
  const both = async (): Promise<Domain> => {
    const domain = await verified()
    publish(await rotate(domain), ['dkim_ed25519'])
    return check(domain)
  }
  const actions = (domain: Domain) =>
    world.db.run<{ action: string }>(
      'select action from audit_log where workspace_id = $1 and target = $2 order by id',
      [workspace, domain.name],
    )

  test('signs beside it once its record is seen, and no sooner', async () => {
    const domain = await verified()
    const made = await rotate(domain)
    expect(shown(made)).toEqual(['dkim verified', 'dkim_ed25519 pending'])
    expect(record(made, 'dkim_ed25519')?.value).toMatch(/^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/)
    expect(made.zoneFile).toContain('k=ed25519')
    expect((await rotate(domain)).records).toEqual(made.records) // asked twice, made once
    const looked = await check(domain)
    expect(looked.status).toBe('verified')
    expect(record(looked, 'dkim_ed25519')?.finding).toMatch(/no such record yet.*signed with RSA alone/)
    expect(await signing(domain)).toEqual(['rsa'])
    publish(made, ['dkim_ed25519'])
    expect(shown(await check(domain))).toEqual(['dkim verified', 'dkim_ed25519 verified'])
    expect(await signing(domain)).toEqual(['rsa', 'ed25519'])
  })

  test('never makes a domain verified, and never keeps one from it', async () => {
    const domain = await add()
    const made = await rotate(domain)
    publish(made, ['ownership', 'dkim_ed25519'])
    expect(await check(domain)).toMatchObject({ status: 'pending' })
    for (const { name, purpose } of made.records) if (purpose === 'dkim_ed25519') delete dns.zone[name]
    publish(made, ['dkim'])
    expect(await check(domain)).toMatchObject({ status: 'verified' })
  })

  test('whose record is gone signs no more, and the domain is what it was; seen again, it signs again', async () => {
    const domain = await both()
    const { name, value } = record(domain, 'dkim_ed25519') ?? { name: '', value: '' }
    set(name, 'servfail')
    await check(domain)
    expect(await signing(domain)).toEqual(['rsa', 'ed25519']) // silence says nothing
    delete dns.zone[name]
    const lost = await check(domain)
    expect(lost.status).toBe('verified')
    expect(record(lost, 'dkim_ed25519')).toMatchObject({
      status: 'pending',
      finding: expect.stringMatching(/signed with RSA alone/) as string,
    })
    expect(await signing(domain)).toEqual(['rsa'])
    expect((lost.nextCheckAt?.getTime() ?? 0) - domain.createdAt.getTime()).toBe(15 * 60_000)
    set(name, { txt: ['v=DKIM1; k=ed25519; p='] })
    expect(record(await check(domain), 'dkim_ed25519')).toMatchObject({ status: 'wrong' })
    set(name, { txt: [value] })
    expect((await check(domain)).records.find(({ purpose }) => purpose === 'dkim_ed25519')).not.toHaveProperty(
      'finding',
    )
    expect(await signing(domain)).toEqual(['rsa', 'ed25519'])
    expect(told).toHaveLength(1) // that it was verified
    expect((await actions(domain)).map(({ action }) => action)).toContain('domain.dkim_suspended')
  })

  test('is watched also where an operator vouches for the domain', async () => {
    const domain = await add(true)
    await clockAt(domain, 1)
    publish(await rotate(domain), ['dkim_ed25519'])
    const seen = await check(domain)
    expect((seen.nextCheckAt?.getTime() ?? 0) - domain.createdAt.getTime()).toBe(7 * 3600_000)
    for (const name of Object.keys(dns.zone)) delete dns.zone[name]
    await clockAt(domain, 8)
    expect(await checker.checkDue()).toBe(1)
    expect(await signing(domain)).toEqual(['rsa'])
  })

  test.each([
    ['rsa-sha256', ['dkim verified', 'dkim retiring', 'dkim_ed25519 verified']],
    ['ed25519-sha256', ['dkim verified', 'dkim_ed25519 verified', 'dkim_ed25519 retiring']],
  ] as const)('a new key of one algorithm leaves the other alone: %s', async (algorithm, after) => {
    const domain = await both()
    publish(await rotate(domain, algorithm), ['dkim', 'dkim_ed25519'])
    await clockAt(domain, 1)
    expect(shown(await check(domain))).toEqual(after)
    const retired = `${algorithm.split('-')[0]} retired`
    expect(await signing(domain)).toEqual(['rsa', 'ed25519', retired].toSorted().toReversed())
    await clockAt(domain, 1 + 7 * 24 + 1)
    expect(shown(await check(domain))).toEqual(['dkim verified', 'dkim_ed25519 verified'])
  })

  test('of both algorithms a new key may wait, and both begin with one look', async () => {
    const domain = await both()
    await rotate(domain, 'rsa-sha256')
    const made = await rotate(domain)
    expect(shown(made)).toEqual(['dkim verified', 'dkim pending', 'dkim_ed25519 verified', 'dkim_ed25519 pending'])
    expect(JSON.stringify(made.records)).not.toContain('RSA alone') // the first Ed25519 key signs
    publish(made, ['dkim', 'dkim_ed25519'])
    expect(shown(await check(domain)).filter((each) => each.endsWith('verified'))).toEqual([
      'dkim verified',
      'dkim_ed25519 verified',
    ])
    expect(await signing(domain)).toHaveLength(4)
  })

  test('whose record was taken away while its follower waits is gone at once, and the follower waits on', async () => {
    const domain = await both()
    const made = await rotate(domain)
    delete dns.zone[record(domain, 'dkim_ed25519')?.name as string]
    expect(shown(await check(domain))).toEqual(['dkim verified', 'dkim_ed25519 pending'])
    expect(await signing(domain)).toEqual(['rsa'])
    publish(made, ['dkim_ed25519'])
    await check(domain)
    expect(await signing(domain)).toEqual(['rsa', 'ed25519'])
  })

  test('ends: one that signs is kept for a week as a replaced one is, one that waits is gone', async () => {
    const domain = await both()
    await rotate(domain)
    await clockAt(domain, 1)
    const ended = await end(domain)
    expect(shown(ended)).toEqual(['dkim verified', 'dkim_ed25519 retiring'])
    expect(record(ended, 'dkim_ed25519')?.finding).toMatch(/only what was accepted before it was replaced or ended/)
    expect(await signing(domain)).toEqual(['rsa', 'ed25519 retired'])
    await expect(end(domain)).rejects.toThrow('no Ed25519 key')
    // And another one may be made meanwhile.
    publish(await rotate(domain), ['dkim_ed25519'])
    await check(domain)
    expect(await signing(domain)).toEqual(['rsa', 'ed25519 retired', 'ed25519'])
    await end(domain)
    await clockAt(domain, 1 + 7 * 24 + 1)
    expect(await checker.checkDue()).toBe(1)
    expect(shown(await check(domain))).toEqual(['dkim verified'])
    expect(await signing(domain)).toEqual(['rsa'])
  })
})
