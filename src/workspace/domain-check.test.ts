// A domain from pending to verified and back, and when it is looked at.
import { describe, expect, test } from 'vitest'
import type { Name } from '../../test/world/dns-server.ts'
import { makeZones } from '../base/zones.ts'
import { limits } from '../config.ts'
import { takeDueDomains } from '../store/domain-checks.ts'
import { makeDomainChecker } from './domain-check.ts'
import {
  add,
  check,
  checker,
  clockAt,
  dns,
  hostname,
  operator,
  publish,
  record,
  set,
  told,
  vault,
  workspace,
  world,
} from './domain-check.test-kit.ts'
import { addDomain, rotateDkimFor, unvouchDomain } from './domains.ts'

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
    const operator = await world.holding('update domains set vouched = $2, check_due_at = $3 where id = $1', [
      domain.id,
      !before,
      before ? domain.createdAt : null,
    ])
    const checked = check(domain)
    await world.untilSomebodyWaits()
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

  test.each([
    ['verified', false],
    ['vouched for', true],
  ])('a key that is asked for while a domain that is %s is looked at is looked for soon, too', async (_, vouched) => {
    const domain = await add(vouched)
    publish(domain)
    await check(domain)
    const owner = await world.holding('select from domains where id = $1 for update', [domain.id])
    const checked = check(domain)
    await world.untilSomebodyWaits()
    await owner.query(
      `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, state)
       values ($1, $2, 'meanwhile', 'rsa-sha256', 'AAAA', '', 'pending')`,
      [workspace, domain.id],
    )
    await owner.query('update domains set check_due_at = app_now() where id = $1', [domain.id])
    await owner.query('commit')
    const { nextCheckAt } = await checked
    expect((nextCheckAt?.getTime() ?? Infinity) - Date.now()).toBeLessThanOrEqual(limits.domainDegradedMs)
    expect(dns.asked).toContain(`TXT meanwhile._domainkey.${domain.name}`)
  })

  test('a key that waits when an operator vouches for its domain is looked for all the same', async () => {
    const domain = await add()
    publish(domain)
    await check(domain)
    const tools = { db: world.db, vault, hostname }
    const rotated = await rotateDkimFor(tools, operator(), domain.id)
    expect(await addDomain(tools, workspace, domain.name, true)).toMatchObject({ vouched: true })
    publish(rotated)
    expect(await checker.checkDue()).toBe(1)
    const keys = (await check(domain)).records.filter(({ purpose }) => purpose === 'dkim')
    expect(keys.map(({ status }) => status)).toEqual(['verified', 'retiring'])
  })

  test('those that cannot be checked keep no other from it, and are told when all are done', async () => {
    const broken: string[] = []
    for (let n = 0; n < limits.domainChecksAtOnce; n++) broken.push((await add()).id)
    const last = await add()
    publish(last)
    await world.db.run(
      `update domains set check_due_at = app_now() - case when id = any ($1) then interval '1 hour' else '1 second' end where id = any ($1) or id = $2`,
      [broken, last.id],
    )
    await world.db.run(
      `create function refuse_check() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$`,
    )
    await world.db.run(
      `create trigger refuse_check before update of checked_at on domains for each row when (new.id <> '${last.id}') execute function refuse_check()`,
    )
    try {
      await expect(checker.checkDue()).rejects.toThrow(/^not this one$/)
    } finally {
      await world.db.run('drop function refuse_check cascade')
    }
    expect(await world.value('select status from domains where id = $1', [last.id])).toBe('verified')
  })

  test('a node that dies in the middle leaves the domain to the next one', async () => {
    const domain = await add()
    await world.db.run('update domains set check_due_at = app_now() where id = $1', [domain.id])
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
    const finding = expect.stringMatching(`POSTHORN_HOSTNAME.*"${host}"`)
    const waiting = made.records.filter(({ waitsFor }) => waitsFor !== undefined)
    expect(waiting).toEqual(
      warned ? [expect.objectContaining({ purpose: 'return_path', waitsFor: 'hostname', finding })] : [],
    )
    expect(made.zoneFile.includes('CNAME')).toBe(!warned)
    expect(made.zoneFile).toContain('_posthorn.new.example')
  },
)

test('a workspace with very many domains that are due has its turn, and the others theirs', async () => {
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
