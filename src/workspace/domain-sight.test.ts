// What is wrong with the records of a domain is said in words that its owner can act on.
import { describe, expect, test } from 'vitest'
import { add, check, checker, hostname, publish, record, set, vault, world } from './domain-check.test-kit.ts'
import { addDomain, type Domain } from './domains.ts'

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
      'the domain twice, with another value',
      'ownership',
      (d) => set(`_posthorn.${d.name}.${d.name}`, { txt: ['posthorn-verify=old'] }),
      /no such record yet/,
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
      'an MX to somebody else beside ours',
      'return_path',
      (d) =>
        set(bounces(d), {
          mx: [hostname, 'elsewhere.example'].map((exchange) => ({ preference: 10, exchange })),
          txt: ['v=spf1 a:node.test -all'],
        }),
      /must be the only mail host/,
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
      'DMARC with a policy that is a word of our own language',
      'dmarc',
      (d) => set(`_dmarc.${d.name}`, { txt: ['v=DMARC1; p=constructor'] }),
      /^The DMARC record has no policy: p must be/m,
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
    expect(checked.returnPathHost).toBeUndefined()
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

  test('while name servers are silent nobody is told to set a CNAME beside the MX that is there', async () => {
    const domain = await add()
    publish(domain, ['ownership', 'dkim'])
    set(bounces(domain), { mx: [{ preference: 10, exchange: hostname }], txt: ['v=spf1 a:node.test -all'] })
    await check(domain)
    set(bounces(domain), 'servfail')
    const silent = await check(domain)
    expect(silent).toMatchObject({ status: 'verified', returnPathHost: bounces(domain) })
    expect(
      silent.records.flatMap(({ purpose, type, status }) => (purpose === 'return_path' ? [`${type} ${status}`] : [])),
    ).toEqual(['MX pending', 'TXT pending'])
    expect(silent.zoneFile).not.toContain('CNAME')
  })

  test.each([
    ['a.b.c.d.e.f.example', '_dmarc.f.example'],
    // Of ten labels the first and then the last seven, so that nobody is asked more than eight times.
    ['a.b.c.d.e.f.g.h.i.example', '_dmarc.d.e.f.g.h.i.example'],
    ['a.b.c.d.e.f.g.h.i.example', '_dmarc.i.example'],
  ])('%s lies below the DMARC record at %s, however deep it is', async (name, at) => {
    const { workspaceId } = await world.sender()
    const { id } = await addDomain({ db: world.db, vault, hostname }, workspaceId, name, false)
    set(at, { txt: ['v=DMARC1; p=reject; rua=mailto:a@example.org'] })
    const checked = await checker.check(workspaceId, id)
    expect(checked?.records.find(({ purpose }) => purpose === 'dmarc')).toMatchObject({
      status: 'verified',
      finding: expect.stringMatching(/^p=reject/) as string,
    })
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
    // Of what nobody answers, nothing is said.
    set(bounces(domain), { cname: hostname })
    set(hostname, 'servfail')
    const silent = record(await check(domain), 'return_path')
    expect(silent?.status).toBe('verified')
    expect(silent).not.toHaveProperty('finding')
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
    // What is there is to be mended, as its finding says: one more would be one too many.
    set(`_dmarc.${domain.name}`, { txt: ['v=DMARC1; p=reject; sp=monitor'] })
    expect((await check(domain)).zoneFile).toBe('')
  })
})
