// What operators are refused is what callers of the API are refused, in one sentence.
import { beforeAll, expect, test } from 'vitest'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { ending } from '../../test/world/ending.ts'
import type { Domain } from '../workspace/workspace.ts'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer, open } = commandsOver()

beforeAll(async () => {
  expect(await posthorn(['workspace', 'create', '--name', 'Shop', '--plan', 'free'])).toMatchObject({ status: 0 })
})

test.each([
  [
    'a key that has expired already',
    ['key', 'create', 'Shop', '--name', 'k', '--scope', 'mail.send', '--expires', '2020-01-01T00:00:00Z'],
    'A key must expire in the future.',
  ],
  [
    'a domain of the simulator',
    ['domain', 'add', 'Shop', 'a.simulator.posthorn.test', '--verified'],
    'a.simulator.posthorn.test is reserved',
  ],
  [
    'a mailbox for all addresses of a domain',
    ['mailbox', 'add', 'Shop', '*@shop.example'],
    'A mailbox is one address: "*@shop.example" would stand for',
  ],
])('%s is not made', async (_name, args, words) => {
  const { status, out, err } = await posthorn(args)
  expect([status, out]).toEqual([1, ''])
  expect(err).toContain(words)
})

test('whoever adds a mailbox on a domain that does not send yet is told so, and how it will', async () => {
  await posthorn(['domain', 'add', 'Shop', 'waits.example'])
  await posthorn(['domain', 'add', 'Shop', 'sends.example', '--verified'])
  const { status, out } = await posthorn(['mailbox', 'add', 'Shop', 'a@waits.example'])
  expect(status).toBe(0)
  expect(out).toMatch(
    /waits\.example is pending, so mail from this address is refused until .*\n {2}\.\/bin\/posthorn domain list Shop\n {2}\.\/bin\/posthorn domain check Shop waits\.example\n$/,
  )
  expect((await posthorn(['mailbox', 'add', 'Shop', 'a@sends.example'])).out).not.toContain('refused')
}, 180_000)

test('what was added says what comes next, and what is kept says for how long', async () => {
  const made = await posthorn(['workspace', 'create', '--name', 'Ann & Co'], { POSTHORN_KEEP_CONTENT_DAYS: '3' })
  expect(made.out).toMatch(/^content: +kept for 3 days after a message is final$/m)
  const pending = await posthorn(['domain', 'add', 'Ann & Co', 'next.example'], { POSTHORN_HOSTNAME: 'vm' })
  expect(pending.out).toContain('(the setting `POSTHORN_HOSTNAME`): the record would name "vm"')
  expect(pending.out).toMatch(/^CNAME +bounces\.next\.example +pending +not yet: see below$/m)
  expect(pending.out).toMatch(
    /Next, publish .*:\n {2}\.\/bin\/posthorn domain check 'Ann & Co' next\.example\n {2}\.\/bin\/posthorn mailbox add 'Ann & Co' hello@next\.example\n$/,
  )
  // As its zone takes them: a string there has at most 255 characters, and the DKIM key more. What waits for the host name is not among them.
  const zone = pending.out.split('\n').filter((line) => / 3600 IN (?:TXT|CNAME) /.test(line))
  expect(zone.map((line) => line.split(' ')[0])).toEqual([
    '_posthorn.next.example.',
    expect.stringMatching(/^ph\d{6}-[a-z2-7]{4}\._domainkey\.next\.example\.$/),
    '_dmarc.next.example.',
  ])
  const strings = [...(zone[1] ?? '').matchAll(/"([^"]*)"/g)].map(([, each]) => each ?? '')
  expect(strings.map(({ length }) => length)).toEqual([255, expect.any(Number)])
  expect(pending.out).toContain(` ${strings.join('')}\n`)
  const vouched = await posthorn(['domain', 'add', 'Ann & Co', 'word.example', '--verified'], {
    POSTHORN_HOSTNAME: 'mail.example.org',
  })
  expect(vouched.out).not.toContain('POSTHORN_HOSTNAME')
  expect(vouched.out).toMatch(
    /\n\nNext, an address to send from:\n {2}\.\/bin\/posthorn mailbox add 'Ann & Co' hello@word\.example\n$/,
  )
  const dropped = await posthorn(['workspace', 'set', 'Ann & Co', '--keep-content', 'false'])
  expect(dropped.out).toMatch(/^content: +dropped as soon as a message is final$/m)
}, 180_000)

test('the owners are told of what a look by command has found, for no later look finds a change', async () => {
  const dns = await ending(startDnsServer)
  await answer('workspace', 'create', '--name', 'Watched')
  await answer('user', 'create', '--email', 'owner@people.example', '--workspace', 'Watched', '--role', 'owner')
  await answer('domain', 'add', 'Watched', 'own.example', '--verified')
  const mailbox = await answer('mailbox', 'add', 'Watched', 'no-reply@own.example')
  const { records } = (await answer('domain', 'add', 'Watched', 'told.example')) as unknown as Domain
  for (const { type, name, value } of records) if (type === 'TXT') dns.zone[name] = { txt: [value] }
  const check = async (more: NodeJS.ProcessEnv) => {
    const settings = { POSTHORN_DNS_SERVERS: dns.address, ...more }
    const { out, err } = await posthorn(['domain', 'check', 'Watched', 'told.example'], settings)
    return [/^status: +(\S+)$/m.exec(out)?.[1], err]
  }
  const sender = { POSTHORN_SYSTEM_MAILBOX: String(mailbox['id']) }
  expect(await check(sender)).toEqual(['verified', ''])
  for (const name of Object.keys(dns.zone)) delete dns.zone[name]
  expect(await check(sender)).toEqual(['degraded', ''])
  for (const { type, name, value } of records) if (type === 'TXT') dns.zone[name] = { txt: [value] }
  // Where nobody can be told, whoever looks hears that.
  expect(await check({})).toEqual([
    'verified',
    expect.stringMatching(/^posthorn: the owners could not be told of it: /),
  ])
  const db = open()
  const told = await db.run('select recipient, subject from messages order by id')
  await db.close()
  expect(told).toEqual([
    { recipient: 'owner@people.example', subject: 'told.example is verified' },
    { recipient: 'owner@people.example', subject: 'told.example: its DNS records are broken' },
  ])
})

test('a domain that was taken as verified says by whose word, until it is taken back', async () => {
  await answer('workspace', 'create', '--name', 'Grown')
  await answer('domain', 'add', 'Grown', 'grown.example', '--verified')
  const { out } = await posthorn(['domain', 'list', 'Grown'])
  expect(out).toMatch(/^status: verified by your word, or the first start's; checks change nothing$/m)
  const taken = await answer('domain', 'unvouch', 'Grown', 'grown.example')
  expect(taken).toMatchObject({ status: 'verified', vouched: false, nextCheckAt: expect.any(String) as string })
  const again = await posthorn(['domain', 'unvouch', 'Grown', 'grown.example'])
  expect([again.status, again.err]).toEqual([1, expect.stringContaining('nobody vouches')])
})
