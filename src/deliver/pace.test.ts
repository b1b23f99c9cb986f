import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import { makePace } from './pace.ts'
import { builtInManners, ofOwner, providerOf, providers } from './providers.ts'

const reply = (code: number, text = '', enhancedCode?: string, host = 'mx1.example.org'): Facts => ({
  phase: code < 300 ? 'eod' : 'mail',
  peer: { host },
  reply: { code, text, ...(enhancedCode !== undefined && { enhancedCode }) },
})
const nothing = { connections: null, messagesPerConnection: null, perMinute: null, warmUpDays: null }

function paceAt() {
  const clock = { now: 0 }
  return { clock, pace: makePace(1, () => clock.now) }
}

test.each([
  ['aspmx.l.google.com', 'google'],
  ['customer-example.mail.protection.outlook.com', 'microsoft'],
  ['customer.p-v1.mx.microsoft', 'microsoft'],
  ['hotmail-com.olc.protection.outlook.com', 'outlook'],
  ['mx1.hotmail.com', 'outlook'],
  ['mta5.am0.yahoodns.net', 'yahoo'],
  ['mx01.mail.icloud.com', 'apple'],
  ['mx1h1.comcast.net', 'comcast'],
  ['mx-ha.web.de', 'gmx'],
  ['smtp-in.orange.fr', 'orange'],
  ['mx1.mail.example.co.uk', 'example.co.uk'],
  ['notgoogle.com', 'notgoogle.com'],
  ['mx2.comcast.net', 'comcast'],
  ['MX1.COMCAST.NET', 'comcast'],
  ['comcast.net', 'comcast'],
  ['mx00.kundenserver.de', 'gmx'],
  ['mx00.emig.gmx.net', 'gmx'],
  ['mx00.1and1.com', 'gmx'],
  ['smtp-in.wanadoo.fr', 'orange'],
  ['mx1.free.fr', 'free'],
  ['smtpz4.laposte.net', 'laposte'],
  ['mx03.t-online.de', 't-online'],
  ['smtp-in.libero.it', 'libero'],
  ['mxs.mail.ru', 'mailru'],
  ['emx.mail.ru', 'mailru'],
  ['mailin-01.mx.aol.com', 'yahoo'],
  ['mx-aol.mail.gm0.yahoodns.net', 'yahoo'],
  ['127.0.0.1', '127.0.0.1'],
  ['localhost', 'localhost'],
])('%s belongs to %s', (host, provider) => {
  expect(providerOf(host)).toBe(provider)
})

test.each([
  'c-73-1-2-3.hsd1.il.comcast.net',
  'mx-73-1-2-3.comcast.net',
  'mx1.hsd1.il.comcast.net',
  'mail.customer.comcast.net',
  'lns-bzn-1-82-1-2-3.adsl.proxad.net',
  'box.hd.free.fr',
  'lfbn-idf1-1-234-56.w90-1.abo.wanadoo.fr',
  's123456.kundenserver.de',
  'vm1.mcs.mail.ru',
  'acab1234.ipt.aol.com',
  // Of providers that no table knows.
  'p57a1b2c3.dip0.t-ipconnect.de',
  'cpe-72-1-2-3.nyc.res.rr.com',
  'ip68-1-2-3.dc.dc.cox.net',
  'cpc1-abcd1-2-0-cust3.5-1.cable.virginm.net',
  'static.4.3.2.1.isp.example',
])('a line of a customer stands for itself: %s', (host) => {
  expect(providerOf(host)).toBe(host)
})

test.each([
  'mx-2-3.example.org',
  'mx1.v2.3.4.example.org',
  'mx.dyn.example',
  'mail.cable.example',
  'mx10.20.example.org',
])('a mail host with numbers, or a word of lines in its domain, is no line: %s', (host) => {
  expect(providerOf(host)).toBe(host.split('.').slice(-2).join('.'))
})

test('every built-in profile can be reached by its hosts, and is bounded', () => {
  for (const { name, hosts = [], zones = [] } of providers) {
    expect(new Set([...hosts, ...zones].map((host) => providerOf(`mx1.${host}`)))).toEqual(new Set([name]))
    expect(builtInManners(name).connections).toBeLessThanOrEqual(limits.connectionsPerDestinationMax)
  }
})

test('a provider that asks for less gets nothing for a while, longer each time in a row, until a success', () => {
  const { clock, pace } = paceAt()
  const waits: number[] = []
  for (let turn = 0; turn < 6; turn++) {
    pace.learn('google', reply(421, 'try again later', '4.7.0'))
    waits.push(pace.turn('google'))
    expect([pace.roomOf('google'), pace.turn('elsewhere')]).toEqual([0, 0])
    clock.now += pace.turn('google')
    expect([pace.turn('google'), pace.roomOf('google')]).toEqual([0, Infinity])
  }
  expect(waits).toEqual([...limits.pauseStepsMs, limits.pauseStepsMs.at(-1)])
  pace.learn('google', reply(250))
  pace.learn('google', reply(421))
  expect(pace.turn('google')).toBe(limits.pauseStepsMs[0])
})

test('who is paused is told, the longest first, so many at most, and nobody else', () => {
  const { clock, pace } = paceAt()
  pace.turn('yahoo')
  pace.learn('google', reply(421, 'try again later', '4.7.0'))
  pace.learn('apple', reply(421, 'try again later', '4.7.0'))
  clock.now += limits.pauseStepsMs[0]
  pace.learn('apple', reply(421, 'try again later', '4.7.0'))
  expect(pace.paused(10)).toEqual(['apple'])
  clock.now += 1
  pace.learn('google', reply(421, 'try again later', '4.7.0'))
  expect([pace.paused(10), pace.paused(1)]).toEqual([['google', 'apple'], ['google']])
  clock.now += limits.pauseMsMax
  expect(pace.paused(10)).toEqual([])
})

test('a relay is paused for whoever has it for his own, under the limits and in the name that operators know', () => {
  const { pace } = paceAt()
  const name = 'relay mail.example.org:25'
  const [one, other] = [ofOwner(name, 'w1'), ofOwner(name, 'w2')]
  pace.configure([{ ...nothing, name, connections: 7 }])
  pace.learn(one, reply(421, 'try again later', '4.7.0'))
  expect([pace.turn(one) > 0, pace.turn(other), pace.turn(name)]).toEqual([true, 0, 0])
  expect(pace.mannersOf(one).connections).toBe(7)
  pace.learn(other, reply(421, 'try again later', '4.7.0'))
  expect(pace.paused(10)).toEqual([name])
  // A mail host is the same for everybody.
  expect(ofOwner('google', 'w1')).toBe('google')
})

test('twenty refusals at the same time are one', () => {
  const { clock, pace } = paceAt()
  for (let turn = 0; turn < 20; turn++) pace.learn('google', reply(421))
  clock.now += limits.pauseStepsMs[0]
  expect(pace.turn('google')).toBe(0)
})

test('what they say counts where it is longer, within bounds', () => {
  const { pace } = paceAt()
  pace.learn('a', reply(421, 'try again in 4 minutes'))
  pace.learn('b', reply(421, 'try again in 99 hours'))
  pace.learn('b', reply(421, 'try again in 99 hours', undefined, 'mx2.example.org'))
  expect([pace.turn('a'), pace.turn('b')]).toEqual([240_000, limits.pauseMsMax])
})

test('one host alone does not stop its provider for an hour, unless it says so again when its time is over', () => {
  const { clock, pace } = paceAt()
  const hour = (host: string) => reply(421, 'Too many connections, try again in 3600 seconds', '4.7.0', host)
  for (let connection = 0; connection < 5; connection++) pace.learn('a', hour('mx1.example.org'))
  expect(pace.turn('a')).toBe(limits.firstPauseMsMax)
  clock.now += limits.firstPauseMsMax
  pace.learn('a', hour('mx1.example.org'))
  expect(pace.turn('a')).toBe(limits.pauseMsMax)
  // Mail that another of its hosts took: the row is over, and with it what was believed.
  clock.now += limits.pauseMsMax
  pace.learn('a', reply(250, 'ok', '2.0.0', 'mx2.example.org'))
  pace.learn('a', hour('mx1.example.org'))
  expect(pace.turn('a')).toBe(limits.firstPauseMsMax)
})

test('a second host that only joins in does not make the pause longer, nor believed the first time that it asks', () => {
  const { clock, pace } = paceAt()
  const later = 'try again in 3600 seconds'
  pace.learn('a', reply(421))
  pace.learn('a', reply(421, later, undefined, 'mx2.example.org'))
  expect(pace.turn('a')).toBe(limits.pauseStepsMs[0])
  clock.now += pace.turn('a')
  pace.learn('a', reply(421, later, undefined, 'mx2.example.org'))
  pace.learn('a', reply(421, 'no', undefined, 'mx1.example.org'))
  expect(pace.turn('a')).toBe(limits.firstPauseMsMax)
})

test('hosts that join in while their provider is paused make neither this pause longer nor the next one', () => {
  const { clock, pace } = paceAt()
  pace.learn('a', reply(421, 'try again in 3600 seconds', '4.7.0', 'mx1.example.org'))
  clock.now += limits.firstPauseMsMax - 1
  for (let connection = 0; connection < 5; connection++) pace.learn('a', reply(421, 'no', undefined, 'mx2.example.org'))
  expect(pace.turn('a')).toBe(1)
  clock.now += 1
  pace.learn('a', reply(421))
  expect(pace.turn('a')).toBe(limits.pauseStepsMs[1])
})

test('a greylist slows its message only', () => {
  const { pace } = paceAt()
  pace.learn('a', reply(450, 'Greylisted, try again in 300 seconds', '4.7.1'))
  expect(pace.turn('a')).toBe(0)
})

// Gmail's 4.7.27 and the like: one customer without SPF must not cost all others the use of Gmail.
test('a provider that wants less of one workspace gets everybody else’s mail as before', () => {
  const { clock, pace } = paceAt()
  const waits: number[] = []
  for (let turn = 0; turn < 6; turn++) {
    pace.learn('google', reply(421, 'rate limited because SPF does not pass', '4.7.27'), 'careless')
    waits.push(pace.turn('google', 'careless'))
    expect([pace.pausedMs('google', 'careless'), pace.pausedMs('google', 'other')]).toEqual([waits.at(-1), 0])
    expect([pace.turn('google', 'other'), pace.roomOf('google'), pace.turn('apple', 'careless')]).toEqual([
      0,
      Infinity,
      0,
    ])
    expect(pace.paused(10)).toEqual([])
    // Nor does what is taken of others end it.
    pace.learn('google', reply(250), 'other')
    clock.now += pace.turn('google', 'careless')
  }
  expect(waits).toEqual([...limits.pauseStepsMs, limits.pauseStepsMs.at(-1)])
  pace.learn('google', reply(250), 'careless')
  pace.learn('google', reply(421, 'rate limited because SPF does not pass', '4.7.27'), 'careless')
  expect(pace.turn('google', 'careless')).toBe(limits.pauseStepsMs[0])
  pace.learn('google', reply(421, 'try again later', '4.7.0'), 'other')
  clock.now += pace.turn('google', 'other') - 1
  expect([pace.turn('google', 'other'), pace.turn('google', 'careless')]).toEqual([1, 1])
})

test('operators are told whom a provider wants less of, in numbers, and apart from pauses of everybody', () => {
  const { clock, pace } = paceAt()
  const careless = (provider: string, workspace: string) =>
    pace.learn(provider, reply(421, 'rate limited because SPF does not pass', '4.7.27'), workspace)
  careless('apple', 'one')
  careless('google', 'one')
  careless('google', 'two')
  pace.learn('yahoo', reply(421, 'try again later', '4.7.0'), 'one')
  expect([pace.pausedSenders(10), pace.pausedSenders(1), pace.paused(10)]).toEqual([
    [
      ['google', 2],
      ['apple', 1],
    ],
    [['google', 2]],
    ['yahoo'],
  ])
  clock.now += limits.pauseStepsMs[0]
  expect(pace.pausedSenders(10)).toEqual([])
})

test('too many connections: half of them, and back with successes', () => {
  const { clock, pace } = paceAt()
  const { connections } = pace.mannersOf('google')
  for (const expected of [connections / 2, connections / 4]) {
    pace.learn('google', reply(421, 'Too many connections', '4.7.0'))
    expect(pace.mannersOf('google').connections).toBe(expected)
    clock.now += pace.turn('google')
  }
  for (let mail = 0; mail < 10 * limits.successesPerStep; mail++) pace.learn('google', reply(250))
  expect(pace.mannersOf('google').connections).toBe(connections)
})

test('connections come back step by step: after so many successes in a row, and so many again', () => {
  const { clock, pace } = paceAt()
  pace.configure([{ ...nothing, name: 'a', connections: 64 }])
  const complain = () => {
    pace.learn('a', reply(421, 'Too many connections', '4.7.0'))
    clock.now += pace.turn('a')
  }
  const after = (successes: number) => {
    for (let mail = 0; mail < successes; mail++) pace.learn('a', reply(250))
    return pace.mannersOf('a').connections
  }
  complain()
  expect(after(limits.successesPerStep - 1)).toBe(32)
  complain()
  expect([after(limits.successesPerStep - 1), after(1), after(limits.successesPerStep - 1), after(1)]).toEqual([
    16, 24, 24, 36,
  ])
})

test('however often too many connections are complained of, and however many there may be, one is left', () => {
  for (const connections of [1, 3, 49, 50]) {
    const { clock, pace } = paceAt()
    pace.configure([{ ...nothing, name: 'a', connections }])
    for (let time = 0; time < 10; time++) {
      pace.learn('a', reply(421, 'Too many connections', '4.7.0'))
      clock.now += pace.turn('a')
    }
    expect(pace.mannersOf('a').connections).toBe(1)
  }
})

test('a greeting of 4yz to one connection more is about their number, whatever it says', () => {
  for (const words of ['450 4.2.0 greylisted, try again later', '450 come back another time']) {
    const { pace } = paceAt()
    const { connections } = pace.mannersOf('google')
    const greeting = { phase: 'greeting', reply: { code: 450, text: words.slice(4) } } as const
    pace.learn('google', greeting)
    expect([pace.pausedMs('google'), pace.mannersOf('google').connections]).toEqual([0, connections])
    pace.learn('google', { ...greeting, crowded: true })
    expect([pace.pausedMs('google'), pace.mannersOf('google').connections]).toEqual([
      limits.pauseStepsMs[0],
      connections / 2,
    ])
  }
})

test('too many connections, said over all of them at the same time, is said once', () => {
  const { pace } = paceAt()
  const { connections } = pace.mannersOf('google')
  for (let mail = 0; mail < 20; mail++) pace.learn('google', reply(421, 'Too many connections', '4.7.0'))
  expect(pace.mannersOf('google').connections).toBe(connections / 2)
})

test.each(['google', 'relay mail.example.org', ofOwner('relay mail.example.org', 'w')])(
  'however often it is said, there is one connection left, and soon all of them after successes: %s',
  (provider) => {
    const { clock, pace } = paceAt()
    const { connections } = pace.mannersOf(provider)
    for (let turn = 0; turn < 40; turn++) {
      pace.learn(provider, reply(421, 'Too many connections', '4.7.0'))
      clock.now += pace.turn(provider)
    }
    expect(pace.mannersOf(provider).connections).toBe(1)
    for (let mail = 0; mail < 14 * limits.successesPerStep; mail++) pace.learn(provider, reply(250))
    expect(pace.mannersOf(provider).connections).toBe(connections)
  },
)

test('only mail that was taken is a success: a yes on the way there does not make the next pause a first one', () => {
  const { clock, pace } = paceAt()
  pace.learn('a', reply(421))
  clock.now += pace.turn('a')
  pace.learn('a', { phase: 'rcpt', reply: { code: 250, text: '' } })
  pace.learn('a', { phase: 'eod', reply: { code: 554, text: 'no' } })
  pace.learn('a', reply(421))
  expect(pace.turn('a')).toBe(limits.pauseStepsMs[1])
})

test('so many providers are known and no more: the one that was met first is forgotten, but not while it is paused', () => {
  const { clock, pace } = paceAt()
  const others = (many: number, from = 0) => {
    for (let other = from; other < from + many; other++) pace.turn(`provider${other}`)
  }
  pace.learn('first', reply(421))
  const rest = pace.turn('first')
  others(limits.providersKnownMax + 5)
  expect(pace.turn('first')).toBe(rest)
  clock.now += rest
  others(5, limits.providersKnownMax + 5)
  // Its next pause is a first one again.
  pace.learn('first', reply(421))
  expect(pace.turn('first')).toBe(limits.pauseStepsMs[0])
})

test('where all that are known are paused, the one whose pause is over soonest is forgotten', () => {
  const { clock, pace } = paceAt()
  for (let other = 0; other < limits.providersKnownMax; other++) {
    clock.now += 0.01
    pace.learn(`provider${other}`, reply(421))
  }
  expect(pace.turn('fresh')).toBe(0)
  pace.learn('fresh', reply(421))
  expect([pace.turn('provider1') > 0, pace.paused(Infinity).length]).toEqual([true, limits.providersKnownMax])
  expect(pace.turn('provider0')).toBe(0)
})

test('a rate is kept, and what operators set replaces what is built in', () => {
  const { clock, pace } = paceAt()
  pace.configure([
    { ...nothing, name: 'slow.example', perMinute: 30, connections: 2 },
    { ...nothing, name: '*', messagesPerConnection: 7 },
  ])
  expect(pace.mannersOf('slow.example')).toMatchObject({ connections: 2, perMinute: 30 })
  expect(pace.mannersOf('google')).toEqual({ ...builtInManners('google'), messagesPerConnection: 7 })
  let sent = 0
  for (; clock.now <= 120_000; clock.now += 100) if (pace.turn('slow.example') === 0) sent++
  expect(sent).toBeGreaterThanOrEqual(60)
  expect(sent).toBeLessThanOrEqual(60 + 6) // ten seconds' worth at once
  expect(pace.turn('slow.example')).toBeGreaterThan(0)
  expect(pace.roomOf('slow.example')).toBe(0)
  pace.configure([])
  expect(pace.mannersOf('google')).toEqual(builtInManners('google'))
})

test('a warm-up doubles each day', () => {
  const { clock, pace } = paceAt()
  pace.configure([{ ...nothing, name: 'google', warmUpDays: 0 }])
  const perDay = () => Math.round((pace.mannersOf('google').perMinute ?? 0) * 24 * 60)
  expect(perDay()).toBe(limits.warmUpFirstDay)
  clock.now = 2 * 86_400_000 + 5
  expect(perDay()).toBe(4 * limits.warmUpFirstDay)
  // What is set is read again now and then, with the days that have passed until then.
  pace.configure([{ ...nothing, name: 'google', warmUpDays: 2 }])
  expect(perDay()).toBe(4 * limits.warmUpFirstDay)
  pace.configure([{ ...nothing, name: 'google', warmUpDays: 20, perMinute: 60 }])
  expect(pace.mannersOf('google').perMinute).toBe(60)
  pace.configure([{ ...nothing, name: 'google', warmUpDays: 0, perMinute: 60 }])
  expect(perDay()).toBe(limits.warmUpFirstDay)
  pace.configure([{ ...nothing, name: 'google', warmUpDays: 3_000 }])
  expect(pace.mannersOf('google').perMinute).toBe(undefined)
})

test('a rate of less than one message in ten seconds, as on the first days of a warm-up, lets one go whenever its time has come', () => {
  const { clock, pace } = paceAt()
  pace.configure([{ ...nothing, name: 'google', perMinute: 2 }])
  for (let mail = 0; mail < 3; mail++) {
    expect([pace.roomOf('google'), pace.turn('google'), pace.turn('google')]).toEqual([1, 0, 30_000])
    clock.now += 30_000
  }
})
