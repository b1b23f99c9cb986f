// DKIM keys of a domain come and go with their records: one signs when it is seen, and no mail is signed with one that is not there.
import { describe, expect, test } from 'vitest'
import { readSigningKeys } from '../store/signing-keys.ts'
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
import { addDomain, endEd25519For, rotateDkimFor, type Domain } from './domains.ts'

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

  // Each held what the other asked for next, until PostgreSQL ended one of them.
  test.each([
    ['is ended', end, []],
    ['is given a follower', (domain: Domain) => rotate(domain), ['dkim_ed25519 pending']],
  ] as const)('that %s while its domain is checked waits for the check', async (_what, act, after) => {
    const domain = await both()
    delete dns.zone[record(domain, 'dkim_ed25519')?.name as string]
    const holding = await world.holding('select from domains where id = $1 for no key update', [domain.id])
    const checked = check(domain)
    await world.untilWaiting(1)
    const acted = act(domain)
    await world.untilWaiting(2)
    await holding.query('commit')
    expect((await checked).status).toBe('verified')
    expect(shown(await acted)).toEqual(['dkim verified', ...after])
    expect(await signing(domain)).toEqual(['rsa'])
  })

  test('that two ask for at once is made once, and written down once', async () => {
    const domain = await verified()
    const [one, other] = await Promise.all([rotate(domain), rotate(domain)])
    expect(one.records).toEqual(other.records)
    expect((await actions(domain)).filter(({ action }) => action === 'domain.dkim_prepared')).toHaveLength(1)
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
