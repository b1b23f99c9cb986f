import { describe, expect, test } from 'vitest'
import { failReasons, phases, retryReasons, troubles, unknownReasons } from '../domain/attempt.ts'
import type { Facts, Phase, Trouble } from '../domain/attempt.ts'
import type { SmtpReply } from '../mail/smtp-reply.ts'
import { isBrokenTls, landingOf, loginOf, outcomeOf, reports } from './outcome.ts'

const reply = (code: number, text = ''): SmtpReply => {
  const found = /^\d\.\d+\.\d+/.exec(text)?.[0]
  return found === undefined ? { code, text } : { code, enhancedCode: found, text }
}
const said = (facts: Facts): string => {
  const outcome = outcomeOf(facts)
  return 'reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind
}
const beforeDot = phases.filter((phase) => phase !== 'eod')

describe('replies, by phase: 4yz and 5yz', () => {
  const table: Record<Phase, [string, string]> = {
    route: ['retry dns', 'retry dns'],
    connect: ['retry connect', 'retry connect'],
    greeting: ['retry greeting_4xx', 'retry greeting_5xx'],
    ehlo: ['retry greeting_4xx', 'retry ehlo_5xx'],
    tls: ['retry tls', 'retry tls'],
    auth: ['retry auth', 'retry auth'],
    mail: ['retry mail_4xx', 'failed mail_5xx'],
    rcpt: ['retry rcpt_4xx', 'failed rcpt_5xx'],
    data: ['retry data_4xx', 'failed data_5xx'],
    content: ['retry data_4xx', 'failed data_5xx'],
    arm: ['retry data_4xx', 'failed data_5xx'],
    eod: ['retry eod_4xx', 'failed eod_5xx'],
  }
  test.each(Object.entries(table))('%s', (phase, [temporary, permanent]) => {
    for (const code of [400, 421, 450, 459]) expect(said({ phase: phase as Phase, reply: reply(code) })).toBe(temporary)
    for (const code of [500, 550, 559]) expect(said({ phase: phase as Phase, reply: reply(code) })).toBe(permanent)
  })
})

describe('troubles before the dot', () => {
  const table: Record<Exclude<Trouble, 'timeout' | 'closed' | 'malformed'>, string> = {
    dns_failure: 'retry dns',
    nxdomain: 'failed nxdomain',
    null_mx: 'failed null_mx',
    no_mail_host: 'failed no_mail_host',
    private_mx: 'failed private_mx',
    paced: 'retry connect',
    gave_way: 'retry connect',
    connect_failed: 'retry connect',
    tls_failed: 'retry tls',
    auth_unavailable: 'retry auth',
    size: 'failed size',
    smtputf8: 'failed smtputf8',
    no_8bitmime: 'failed no_8bitmime',
    arm_failed: 'retry arm_failed',
    too_late: 'retry arm_failed',
    claim_lost: 'decided',
    expired: 'failed expired',
    workspace_blocked: 'failed workspace_blocked',
    mailbox_not_active: 'failed mailbox_not_active',
    suppressed: 'failed recipient_suppressed',
    shutdown: 'retry shutdown',
  }
  test.each(Object.entries(table))('%s', (trouble, meaning) => {
    for (const phase of beforeDot) expect(said({ phase, trouble: trouble as Trouble })).toBe(meaning)
  })

  test.each(['timeout', 'closed', 'malformed'] as const)('%s is no acceptance, wherever it happened', (trouble) => {
    const meanings = { route: 'retry dns', connect: 'retry connect', tls: 'retry tls' } as Partial<
      Record<Phase, string>
    >
    for (const phase of beforeDot) {
      expect(said({ phase, trouble })).toBe(meanings[phase] ?? 'retry lost_before_eod')
      expect(said({ phase, trouble, reply: reply(250) })).toBe(said({ phase, trouble }))
    }
  })
})

test('a reply that says neither yes nor no before the dot ends nothing for good', () => {
  for (const phase of beforeDot)
    for (const code of [220, 354, 399]) expect(said({ phase, reply: reply(code) })).toBe(said({ phase }))
  expect(said({ phase: 'rcpt' })).toBe('retry lost_before_eod')
})

describe('after the dot', () => {
  test('a 2yz is acceptance, and nothing else is', () => {
    for (const code of [200, 250, 259]) expect(said({ phase: 'eod', reply: reply(code) })).toBe('accepted')
    for (const phase of beforeDot) expect(said({ phase, reply: reply(250) })).not.toBe('accepted')
  })

  test('without a final reply nobody can know, and it is never tried again', () => {
    expect(said({ phase: 'eod', trouble: 'timeout' })).toBe('unknown eod_timeout')
    expect(said({ phase: 'eod', trouble: 'closed' })).toBe('unknown eod_closed')
    expect(said({ phase: 'eod', trouble: 'malformed', reply: reply(250) })).toBe('unknown eod_malformed')
    for (const code of [199, 300, 354, 399])
      expect(said({ phase: 'eod', reply: reply(code) })).toBe('unknown eod_malformed')
    expect(said({ phase: 'eod' })).toBe('unknown eod_closed')
    for (const trouble of troubles) expect(outcomeOf({ phase: 'eod', trouble }).kind).toBe('unknown')
  })
})

test('every fact has a meaning from the closed lists', () => {
  const replies = [undefined, reply(220), reply(354), reply(421), reply(550)]
  for (const phase of phases)
    for (const trouble of [undefined, ...troubles])
      for (const reply of replies) {
        const outcome = outcomeOf({
          phase,
          ...(trouble !== undefined && { trouble }),
          ...(reply !== undefined && { reply }),
        })
        const known = { retry: retryReasons, failed: failReasons, unknown: unknownReasons } as const
        if ('reason' in outcome) expect(known[outcome.kind]).toContain(outcome.reason)
        else expect(['accepted', 'decided']).toContain(outcome.kind)
      }
})

describe("the provider's report in the session", () => {
  test('2yz to the dot is delivered', () => {
    const delivered = { type: 'delivered', final: true, suppress: false }
    for (const kind of ['mx', 'sandbox'] as const)
      expect(reports({ phase: 'eod', reply: reply(250) }, kind)).toEqual(delivered)
  })

  test('4yz is a soft bounce that is no end, and suppresses nobody, whatever its words', () => {
    for (const phase of ['mail', 'rcpt', 'data', 'content', 'arm', 'eod'] as const)
      for (const text of ['', '4.2.0 later', '4.1.1 user unknown', '5.1.1 no such user'])
        for (const code of [400, 450])
          expect(reports({ phase, reply: reply(code, text) }, 'mx')).toMatchObject({
            type: 'soft_bounce',
            final: false,
            suppress: false,
            bounce: { final: false, permanent: false, source: 'smtp' },
          })
  })

  test('5yz is as classified', () => {
    expect(reports({ phase: 'rcpt', reply: reply(550, '5.1.1 no such user') }, 'sandbox')).toMatchObject({
      type: 'hard_bounce',
      final: true,
      suppress: true,
      bounce: { class: 'bad_mailbox', permanent: true, final: true, source: 'smtp' },
    })
    expect(reports({ phase: 'eod', reply: reply(550, '5.7.1 rejected as spam') }, 'mx')).toMatchObject({
      type: 'soft_bounce',
      final: true,
      suppress: false,
      bounce: { class: 'policy' },
    })
    expect(reports({ phase: 'rcpt', reply: reply(500) }, 'mx')).toMatchObject({ final: true, bounce: { final: true } })
  })

  test('a relay that wants a login which the route does not have is our own trouble, a mail host that wants one is not', () => {
    const wanted = { phase: 'mail', reply: reply(530, '5.7.0 Authentication required') } as const
    expect(outcomeOf(wanted, 'relay')).toEqual({ kind: 'retry', reason: 'auth' })
    expect(outcomeOf(wanted, 'mx')).toEqual({ kind: 'failed', reason: 'mail_5xx' })
    expect(outcomeOf({ ...wanted, phase: 'rcpt' }, 'relay')).toEqual({ kind: 'failed', reason: 'rcpt_5xx' })
  })

  test('a relay is no receiving provider', () => {
    for (const code of [250, 450, 550]) expect(reports({ phase: 'eod', reply: reply(code) }, 'relay')).toBeUndefined()
  })

  test('what is no reply about this message is no report', () => {
    expect(reports({ phase: 'greeting', reply: reply(554, '5.7.1 no') }, 'mx')).toBeUndefined()
    expect(reports({ phase: 'auth', reply: reply(535) }, 'mx')).toBeUndefined()
    expect(reports({ phase: 'data', reply: reply(250), trouble: 'malformed' }, 'mx')).toBeUndefined()
    expect(reports({ phase: 'mail', trouble: 'size' }, 'mx')).toBeUndefined()
    expect(reports({ phase: 'eod', trouble: 'timeout' }, 'mx')).toBeUndefined()
    for (const trouble of ['tls_failed', 'malformed'] as const)
      expect(reports({ phase: 'mail', reply: reply(530, '5.7.0 STARTTLS first'), trouble }, 'mx')).toBeUndefined()
    for (const phase of ['mail', 'rcpt', 'data', 'content', 'arm'] as const)
      expect(reports({ phase, reply: reply(250) }, 'mx')).toBeUndefined()
    for (const code of [300, 354, 399])
      expect(reports({ phase: 'eod', reply: reply(code, '5.1.1 no such user') }, 'mx')).toBeUndefined()
  })
})

test.each<[string, Facts, boolean]>([
  ['a handshake that failed', { phase: 'tls', trouble: 'tls_failed' }, true],
  ['a line that ends in place of the 220', { phase: 'tls', trouble: 'closed' }, true],
  ['silence in place of the 220', { phase: 'tls', trouble: 'timeout' }, true],
  ['a line that ends at the EHLO behind the handshake', { phase: 'ehlo', trouble: 'closed', peer: encrypted() }, true],
  ['silence there', { phase: 'ehlo', trouble: 'timeout', peer: encrypted() }, true],
  ['a line that ends at an EHLO in clear text', { phase: 'ehlo', trouble: 'closed', peer: { host: 'mx.test' } }, false],
  ['one that ends later, encrypted', { phase: 'mail', trouble: 'closed', peer: encrypted() }, false],
  ['a no to STARTTLS', { phase: 'tls', reply: reply(454) }, false],
  ['no connection', { phase: 'connect', trouble: 'connect_failed' }, false],
])('whether clear text is worth a try where it is allowed, by %s', (_, facts, isWorthIt) => {
  expect(isBrokenTls(facts)).toBe(isWorthIt)
})
function encrypted() {
  return { host: 'mx.test', tls: 'TLSv1.3' }
}

test.each<[string, Facts, ReturnType<typeof loginOf>]>([
  ['535 to AUTH', { phase: 'auth', reply: reply(535) }, 'refused'],
  ['500 to AUTH', { phase: 'auth', reply: reply(500) }, 'refused'],
  ['a relay that offers no AUTH', { phase: 'auth', trouble: 'auth_unavailable' }, 'refused'],
  ['530 to MAIL', { phase: 'mail', reply: reply(530) }, 'refused'],
  ['454 to AUTH', { phase: 'auth', reply: reply(454) }, undefined],
  ['silence at AUTH', { phase: 'auth', trouble: 'timeout' }, undefined],
  ['no connection', { phase: 'connect', trouble: 'connect_failed' }, undefined],
  ['a refusal of the sender', { phase: 'mail', reply: reply(550) }, 'taken'],
  ['a line lost behind it', { phase: 'data', trouble: 'closed' }, 'taken'],
  ['mail that was taken', { phase: 'eod', reply: reply(250) }, 'taken'],
])('our login at a relay, by %s', (_, facts, login) => {
  expect(loginOf(facts, 'relay')).toBe(login)
  expect(loginOf(facts, 'mx')).toBeUndefined()
})

test.each([
  [{}, 'answered'],
  [{ trouble: 'tls_failed' }, 'answered'],
  [{ trouble: 'closed' }, 'answered'],
  [{ trouble: 'dns_failure' }, 'silent'],
  [{ trouble: 'connect_failed' }, 'silent'],
  [{ trouble: 'timeout' }, 'silent'],
  [{ trouble: 'paced' }, 'unasked'], // by its rate, or a pause: that is no answer, and hides no silence
  [{ trouble: 'paced', late: true }, 'late'],
  [{ trouble: 'shutdown' }, 'unasked'], // a stop of ours
] as const)('what an attempt has shown of its destination: %o is %s', (seen, landing) => {
  expect(landingOf(seen, false)).toBe(landing)
})

test('who made way had waited for a host that says nothing', () => {
  expect(landingOf({ trouble: 'shutdown' }, true)).toBe('silent')
  expect(landingOf({}, true)).toBe('answered') // it came all the same
})
