// Every end of an attempt as the row that writes it down: what stands here is what customers read.
import { describe, expect, test, vi } from 'vitest'
import { limits, settingTable } from '../config.ts'
import { phases, troubles, type FailReason } from '../domain/attempt.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Claimed, Ending } from '../store/outbound.ts'
import { endingOf, gaveWay, gaveWayMs, isReplyToDot, ourLackMs, putOff, unattempted, type Schedule } from './record.ts'
import type { TransmitResult } from './transmit.ts'

const now = new Date('2026-11-21T12:00:00.000Z')
const retrySchedule = settingTable.POSTHORN_RETRY_SCHEDULE.fallback
const schedule: Schedule = { timeScale: 1, retrySchedule, now, startedAt: new Date(now.getTime() - 250) }
const claimed = (changes: Partial<Claimed> = {}): Claimed => ({
  id: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' as MessageId,
  epoch: 3,
  token: '77',
  workspaceId: '0199a1b2-0000-7000-8000-000000000000' as WorkspaceId,
  domainId: 'd',
  destination: 'example.org',
  attempt: 1,
  expiresAt: new Date(now.getTime() + limits.messageAgeMsMax),
  sender: 'post@shop.example',
  senderName: null,
  recipient: 'ann@example.org',
  recipientKey: 'ann@example.org',
  subject: 'Hello',
  acceptedBy: 'node.test',
  createdAt: now,
  source: 'rest',
  bodyText: 'x',
  bodyBlob: null,
  hasAttachments: false,
  attachmentsBytes: 0,
  routeSealed: null,
  claimedAt: now,
  ...changes,
})
const peer = { host: 'mx.example.org', address: '192.0.2.1', tls: 'TLSv1.3' }
const result = (changes: Partial<TransmitResult>): TransmitResult => ({
  phase: 'eod',
  peer,
  dotWritten: false,
  needsDisarm: false,
  routeKind: 'mx',
  attemptsOnHosts: [],
  dialogue: [],
  ...changes,
})
const said = (code: number, text: string) => {
  const enhancedCode = /^\d\.\d+\.\d+/.exec(text)?.[0]
  return { reply: { code, text, ...(enhancedCode !== undefined && { enhancedCode }) } }
}
const pastDot = { phase: 'eod', dotWritten: true } as const
const disarmed = { needsDisarm: true } as const

describe('what proves that an armed message may be sent again', () => {
  const evidenceOf = (facts: Partial<TransmitResult>) => endingOf(claimed(), result(facts), schedule)?.evidence

  test.each([400, 421, 451, 499])('a %i to the dot', (code) => {
    expect(evidenceOf({ ...pastDot, ...said(code, 'later') })).toBe('eod_4xx')
  })

  test.each<[string, Partial<TransmitResult>]>([
    ['no answer', { trouble: 'timeout' }],
    ['a line that ends', { trouble: 'closed' }],
    ['a line that ends in the middle of a 4yz', { trouble: 'closed', ...said(451, 'la') }],
    ['a 4yz that is no reply', { trouble: 'malformed', ...said(451, 'later') }],
    ['one more 354', { trouble: 'malformed', ...said(354, 'go on') }],
    ['a 399', said(399, 'what')],
    ['a 500', said(500, 'no')],
    ['a 2yz', said(250, 'ok')],
    ['nothing at all', {}],
  ])('nothing else that comes behind the dot: %s', (_, facts) => {
    expect(evidenceOf({ ...pastDot, ...facts })).toBeUndefined()
  })

  test('that the dot was not written, where it was armed or may have been; what was not armed needs no proof', () => {
    const before: Partial<TransmitResult> = { phase: 'arm', trouble: 'arm_failed' }
    expect(evidenceOf({ ...before, needsDisarm: true })).toBe('not_written')
    expect(evidenceOf(before)).toBeUndefined()
  })
})

describe('every kind of end', () => {
  // facts | status, reason, evidence, report, its rank, suppressed, the words
  const table: [string, Partial<TransmitResult>, unknown[], string | undefined][] = [
    [
      '2yz to the dot',
      { ...pastDot, ...said(250, '2.0.0 Ok: queued as Q1') },
      ['sent', undefined, undefined, 'delivered', 2, false],
      undefined,
    ],
    [
      '2yz to the dot of a relay: nobody’s report',
      { ...pastDot, ...said(250, '2.0.0 Ok: queued as Q1'), routeKind: 'relay' },
      ['sent', undefined, undefined, undefined, undefined, undefined],
      undefined,
    ],
    [
      '4yz to the dot',
      { ...pastDot, ...said(451, '4.3.0 not now') },
      ['retrying', 'eod_4xx', 'eod_4xx', 'soft_bounce', 1, false],
      'mx.example.org said to the final dot: 451 4.3.0 not now',
    ],
    [
      '5yz to the dot',
      { ...pastDot, ...said(550, '5.7.1 spam') },
      ['failed', 'eod_5xx', undefined, 'soft_bounce', 3, false],
      'mx.example.org said to the final dot: 550 5.7.1 spam',
    ],
    [
      'nobody there',
      { phase: 'rcpt', ...said(550, '5.1.1 no such user') },
      ['failed', 'rcpt_5xx', undefined, 'hard_bounce', 4, true],
      'mx.example.org said to RCPT: 550 5.1.1 no such user',
    ],
    [
      'greylisted',
      { phase: 'rcpt', ...said(450, '4.2.0 later') },
      ['retrying', 'rcpt_4xx', undefined, 'soft_bounce', 1, false],
      'mx.example.org said to RCPT: 450 4.2.0 later',
    ],
    [
      'armed, and refused before the dot',
      { phase: 'arm', ...disarmed, ...said(451, '4.3.0 not now') },
      ['retrying', 'data_4xx', 'not_written', 'soft_bounce', 1, false],
      'mx.example.org said before the final dot: 451 4.3.0 not now',
    ],
    [
      'silence after the dot',
      { ...pastDot, trouble: 'timeout' },
      ['delivery_unknown', 'eod_timeout', undefined, undefined, undefined, undefined],
      'Remote acceptance cannot be proven; the message is not sent again. The other side did not answer in time. (mx.example.org, eod)',
    ],
    [
      'a 354 to the dot',
      { ...pastDot, trouble: 'malformed', ...said(354, 'go on') },
      ['delivery_unknown', 'eod_malformed', undefined, undefined, undefined, undefined],
      'Remote acceptance cannot be proven; the message is not sent again. The other side answered with a code that means nothing there. mx.example.org said to the final dot: 354 go on',
    ],
    [
      'what is no reply to the dot',
      { ...pastDot, trouble: 'malformed' },
      ['delivery_unknown', 'eod_malformed', undefined, undefined, undefined, undefined],
      'Remote acceptance cannot be proven; the message is not sent again. The other side answered with something that is no SMTP reply. (mx.example.org, eod)',
    ],
    [
      'a 250 to DATA',
      { phase: 'data', trouble: 'malformed', ...said(250, 'ok') },
      ['retrying', 'lost_before_eod', undefined, undefined, undefined, undefined],
      'The other side answered with a code that means nothing there. mx.example.org said to DATA: 250 ok',
    ],
    [
      'a claim that may be armed',
      { phase: 'arm', trouble: 'arm_failed', needsDisarm: true },
      ['retrying', 'arm_failed', 'not_written', undefined, undefined, undefined],
      'The database could not be asked for the message, or it could not be recorded that it is about to be sent. (mx.example.org, arm)',
    ],
    [
      'armed too late',
      { phase: 'arm', trouble: 'too_late', ...disarmed },
      ['retrying', 'arm_failed', 'not_written', undefined, undefined, undefined],
      'The lease ran out before the message could be sent. (mx.example.org, arm)',
    ],
    [
      'suppressed at the arm',
      { phase: 'arm', trouble: 'suppressed' },
      ['failed', 'recipient_suppressed', undefined, undefined, undefined, undefined],
      'The recipient was suppressed meanwhile. (mx.example.org, arm)',
    ],
    [
      'expired at the arm',
      { phase: 'arm', trouble: 'expired' },
      ['failed', 'expired', undefined, undefined, undefined, undefined],
      'The message expired before it could be delivered. (mx.example.org, arm)',
    ],
    [
      'of a workspace that is blocked at the arm',
      { phase: 'arm', trouble: 'workspace_blocked' },
      ['failed', 'workspace_blocked', undefined, undefined, undefined, undefined],
      'The workspace was blocked before the message could be delivered. (mx.example.org, arm)',
    ],
    [
      'no such domain',
      { phase: 'route', trouble: 'nxdomain', peer: undefined as never },
      ['failed', 'nxdomain', undefined, undefined, undefined, undefined],
      "The recipient's domain does not exist.",
    ],
    [
      'no mail host that the policy of the domain allows',
      { phase: 'route', trouble: 'tls_failed', peer: undefined as never },
      ['retrying', 'tls', undefined, undefined, undefined, undefined],
      "The recipient's domain demands TLS (DANE or MTA-STS), and its policy allows none of its mail hosts for now; nobody was asked.",
    ],
    [
      'the relay wants a login',
      { phase: 'mail', ...said(530, '5.7.0 Authentication required'), routeKind: 'relay' },
      ['retrying', 'auth', undefined, undefined, undefined, undefined],
      'mx.example.org said to MAIL: 530 5.7.0 Authentication required',
    ],
    [
      'a refused login',
      { phase: 'auth', ...said(535, '5.7.8 no'), routeKind: 'relay' },
      ['retrying', 'auth', undefined, undefined, undefined, undefined],
      'mx.example.org said to the login: 535 5.7.8 no',
    ],
  ]
  test.each(table)('%s', (_, facts, [status, reason, evidence, report, rank, suppress], words) => {
    const ending = endingOf(claimed(), result(facts), schedule)
    expect(ending).toMatchObject({ id: claimed().id, epoch: 3, token: '77', usesTry: true })
    expect([
      ending?.status,
      ending?.evidence,
      ending?.report?.type,
      ending?.report?.rank,
      ending?.report?.suppress,
      ending?.error,
    ]).toEqual([status, evidence, report, rank, suppress, words])
    const event = ending?.event as Record<string, unknown>
    expect([event['reason'], event['errorMessage'], event['attempt']]).toEqual([reason, words, 1])
    expect(ending?.attempt).toMatchObject({ startedAt: schedule.startedAt })
  })

  test('someone else has decided: nothing is written', () => {
    expect(endingOf(claimed(), result({ phase: 'arm', trouble: 'claim_lost' }), schedule)).toBeUndefined()
  })

  test('the provider’s id is kept with acceptance, and with nothing else', () => {
    expect(
      endingOf(claimed(), result({ ...pastDot, ...said(250, '2.0.0 Ok: queued as Q1') }), schedule)?.providerMessageId,
    ).toBe('Q1')
    expect(
      endingOf(claimed(), result({ ...pastDot, ...said(451, '4.0.0 queued as Q1') }), schedule),
    ).not.toHaveProperty('providerMessageId')
  })

  test('the provider’s id is one of a relay’s where a relay gave it, and names whose', () => {
    const of = (routeKind: TransmitResult['routeKind'], routeSealed: Buffer | null) => {
      const facts = result({ ...pastDot, ...said(250, '2.0.0 Ok: queued as Q1'), routeKind })
      return endingOf(claimed({ routeSealed }), facts, schedule)?.relay
    }
    const own = Buffer.from('sealed')
    expect([of('mx', null), of('mx', own), of('sandbox', null)]).toEqual([undefined, undefined, undefined])
    expect([of('relay', null), of('relay', own)]).toEqual(['installation', claimed().workspaceId])
  })

  test('the route that a dot took is kept with its attempt, whatever became of it, and no route where none was written', () => {
    const of = (changes: Partial<TransmitResult>, routeSealed: Buffer | null = null) =>
      endingOf(claimed({ routeSealed }), result(changes), schedule)?.attempt as { route?: unknown }
    const own = Buffer.from('sealed')
    for (const end of [said(250, '2.0.0 ok'), said(451, '4.3.0 not now'), { trouble: 'closed' } as const]) {
      expect(of({ ...pastDot, ...end, routeKind: 'relay' })).toHaveProperty('route', 'installation')
      expect(of({ ...pastDot, ...end, routeKind: 'relay' }, own)).toHaveProperty('route', 'workspace')
      // The simulator's mail goes to the sandbox whatever the route is.
      for (const sealed of [null, own])
        expect(of({ ...pastDot, ...end, routeKind: 'sandbox' }, sealed)).toHaveProperty('route', 'sandbox')
      expect(of({ ...pastDot, ...end, routeKind: 'mx' })).toHaveProperty('route', 'mx')
    }
    expect(of({ phase: 'rcpt', ...said(450, '4.2.0 later'), routeKind: 'relay' })).not.toHaveProperty('route')
    expect(of({ phase: 'arm', trouble: 'too_late', ...disarmed, routeKind: 'relay' })).not.toHaveProperty('route')
  })

  test('a reply beside a trouble is no report: TLS that failed says nothing about the recipient', () => {
    const facts = result({
      phase: 'mail',
      trouble: 'tls_failed',
      ...said(530, '5.7.0 Must issue a STARTTLS command first'),
    })
    const ending = endingOf(claimed(), facts, schedule)
    expect(ending).toMatchObject({ status: 'retrying', event: { reason: 'tls' } })
    expect(ending?.error).toBe(
      'No TLS session could be made. mx.example.org said to MAIL: 530 5.7.0 Must issue a STARTTLS command first',
    )
    expect(ending).not.toHaveProperty('report')
  })

  test('where it took place is told to the customer', () => {
    const ending = endingOf(claimed(), result({ ...pastDot, ...said(250, '2.0.0 ok') }), schedule)
    const smtp = {
      host: 'mx.example.org',
      address: '192.0.2.1',
      stage: 'eod',
      code: 250,
      enhancedCode: '2.0.0',
      reply: '2.0.0 ok',
      tls: 'TLSv1.3',
    }
    expect(ending?.event).toMatchObject({ smtp })
    expect(ending?.report?.facts).toMatchObject({ smtp })
  })

  test('the timeline has the reason, the trouble, the policy and what each host said', () => {
    const dialogue = [
      { stage: 'mail', said: 'MAIL FROM:<x>', reply: { code: 250, text: 'ok' } },
      { stage: 'rcpt', said: 'RCPT TO:<y>', trouble: 'timeout' },
    ] as const
    const facts = result({ phase: 'rcpt', trouble: 'timeout', peer: { ...peer, tlsPolicy: 'dane' } as never, dialogue })
    expect(endingOf(claimed(), facts, schedule)?.attempt).toEqual({
      attempt: 1,
      smtp: { host: 'mx.example.org', address: '192.0.2.1', stage: 'rcpt', tls: 'TLSv1.3' },
      startedAt: schedule.startedAt,
      phase: 'rcpt',
      tlsPolicy: 'dane',
      reason: 'lost_before_eod',
      trouble: 'timeout',
      dialogue: [
        { stage: 'mail', said: 'MAIL FROM:<x>', reply: '250 ok' },
        { stage: 'rcpt', said: 'RCPT TO:<y>', trouble: 'timeout' },
      ],
    })
    expect(endingOf(claimed(), result({ ...pastDot, ...said(250, 'ok') }), schedule)?.attempt).not.toHaveProperty(
      'reason',
    )
  })

  test('the report has the reply, what it means, and whether the recipient is suppressed for it', () => {
    const bounced = endingOf(claimed(), result({ phase: 'rcpt', ...said(550, '5.1.1 no such user') }), schedule)?.report
    expect(bounced).toMatchObject({ detail: '550 5.1.1 no such user', bounce: { permanent: true, final: true } })
    expect(bounced?.facts).toMatchObject({ bounce: bounced?.bounce, suppressed: true })
    const greylisted = endingOf(claimed(), result({ phase: 'rcpt', ...said(450, '4.2.0 later') }), schedule)?.report
    expect(greylisted?.facts).toMatchObject({ bounce: { final: false } })
    expect(greylisted?.facts).not.toHaveProperty('suppressed')
    const taken = endingOf(claimed(), result({ ...pastDot, ...said(250, 'ok') }), schedule)?.report
    expect(taken?.facts).not.toHaveProperty('bounce')
  })

  test('every host of an attempt that said 4yz about the message is told of, once, and none of them ends it', () => {
    const at = (host: string, address: string, code: number) =>
      ({ phase: 'rcpt', peer: { host, address }, ...said(code, `4.2.0 from ${address}`) }) as const
    const first = [at('mx1.example.org', '192.0.2.1', 450), at('mx1.example.org', '192.0.2.2', 451)]
    const out = { phase: 'connect', peer: { host: 'mx2.example.org' }, trouble: 'connect_failed' } as const
    const full = { ...at('mx3.example.org', '192.0.2.4', 452), phase: 'greeting' } as const
    const told = (ending: Ending | undefined) =>
      ending?.deferredBy?.map(({ detail, bounce, report }) => [detail, bounce['final'], report])
    const soft = (host: string, address: string, code: number) => [
      `${code} 4.2.0 from ${address}`,
      false,
      expect.objectContaining({
        smtp: expect.objectContaining({ host, address, stage: 'rcpt', code }) as object,
      }),
    ]
    // Taken by the last one.
    const taken = { ...pastDot, ...said(250, 'ok'), peer: { host: 'mx4.example.org' } }
    const accepted = endingOf(claimed(), result({ ...taken, attemptsOnHosts: [...first, out, full, taken] }), schedule)
    expect(accepted?.report?.type).toBe('delivered')
    expect(told(accepted)).toEqual([soft('mx1.example.org', '192.0.2.2', 451)])
    // Refused by all: the one that counts ends it, where no try is left, and is not told of twice.
    const last = at('mx5.example.org', '192.0.2.5', 450)
    const refused = { ...last, attemptsOnHosts: [...first, at('mx5.example.org', '192.0.2.6', 421), last] }
    const failed = endingOf(claimed({ attempt: schedule.retrySchedule.length + 1 }), result(refused), schedule)
    expect([failed?.status, failed?.report?.bounce?.['final']]).toEqual(['failed', true])
    expect(told(failed)).toEqual([soft('mx1.example.org', '192.0.2.2', 451)])
    // Nobody knows about the last one.
    const unknown = endingOf(claimed(), result({ ...pastDot, trouble: 'timeout', attemptsOnHosts: first }), schedule)
    expect([unknown?.status, unknown?.report, told(unknown)?.length]).toEqual(['delivery_unknown', undefined, 1])
    // One host, or a relay, of whose replies none is a report.
    expect(endingOf(claimed(), result({ ...last, attemptsOnHosts: [last] }), schedule)).not.toHaveProperty('deferredBy')
    const relayed = result({ ...taken, routeKind: 'relay', attemptsOnHosts: [...first, taken] })
    expect(endingOf(claimed(), relayed, schedule)).not.toHaveProperty('deferredBy')
  })

  test('the simulator suppresses nobody', () => {
    const facts = result({ phase: 'rcpt', routeKind: 'sandbox', ...said(550, '5.1.1 no such user') })
    expect(endingOf(claimed({ destination: 'simulator.posthorn.test' }), facts, schedule)?.report).toMatchObject({
      type: 'hard_bounce',
      suppress: false,
    })
  })

  test('whatever was seen, an armed claim is never tried again without its proof, and there are words for everything but success', () => {
    for (const phase of phases)
      for (const dotWritten of phase === 'eod' ? [true] : [false])
        for (const armed of phase === 'eod' ? [true] : phase === 'arm' ? [true, false] : [false])
          for (const trouble of [undefined, ...troubles])
            for (const reply of [undefined, 250, 354, 421, 451, 550]) {
              if (trouble === undefined && reply === undefined) continue // every end was seen somehow
              const facts = result({
                phase,
                dotWritten,
                needsDisarm: armed && !dotWritten,
                ...(trouble !== undefined && { trouble }),
                ...(reply !== undefined && said(reply, 'words')),
              })
              const ending = endingOf(claimed(), facts, schedule)
              if (ending === undefined) continue
              if (ending.status !== 'sent') expect(ending.error).toMatch(/\S{3,}.*$/)
              if (ending.status === 'retrying') {
                expect(ending.delayMs).toBeGreaterThanOrEqual(0)
                if (armed) expect(ending.evidence).toBe(dotWritten ? 'eod_4xx' : 'not_written')
                if (dotWritten)
                  expect([reply, trouble]).toEqual([
                    expect.toSatisfy((code: number) => code >= 400 && code < 500),
                    undefined,
                  ])
              }
              if (ending.evidence === 'not_written') expect(dotWritten).toBe(false)
              // By this the database knows late proof (`proves_reply`, migration 0002).
              const { status, evidence, attempt } = ending
              const isReply = dotWritten && trouble === undefined && reply !== undefined && reply !== 354
              expect(isReplyToDot(facts)).toBe(isReply)
              if (isReply) {
                expect(attempt).toMatchObject({ phase: 'eod', smtp: { code: reply } })
                expect(attempt).not.toHaveProperty('trouble')
                const kinds = { 2: ['sent', undefined], 4: ['retrying', 'eod_4xx'], 5: ['failed', undefined] }
                expect([status, evidence]).toEqual(kinds[Math.floor(reply / 100) as 2 | 4 | 5])
              }
            }
  })
})

describe('the schedule', () => {
  const deferred = result({ phase: 'rcpt', ...said(450, '4.2.0 later') })

  test.each(retrySchedule.map((seconds, at) => [at + 1, seconds]))(
    'after try %i: %i seconds, give or take a tenth, and the event says when',
    (attempt, seconds) => {
      for (const random of [0, 0.5, 0.999_999]) {
        vi.spyOn(Math, 'random').mockReturnValue(random)
        const ending = endingOf(claimed({ attempt }), deferred, schedule)
        vi.restoreAllMocks()
        expect((ending?.delayMs ?? 0) / 1000 / seconds).toBeCloseTo(0.9 + 0.2 * random, 3)
        expect(ending?.event).toMatchObject({ nextAttemptAt: new Date(now.getTime() + (ending?.delayMs ?? 0)) })
      }
    },
  )

  test('the time scale divides it', () => {
    const delayMs = endingOf(claimed(), deferred, { ...schedule, timeScale: 1_000 })?.delayMs ?? 0
    expect([delayMs >= 54, delayMs <= 67]).toEqual([true, true])
  })

  test('the other side’s wish where it is longer, up to an hour', () => {
    const delayOf = (words: string) =>
      endingOf(claimed(), result({ phase: 'rcpt', ...said(450, `4.2.0 ${words}`) }), schedule)?.delayMs
    expect(delayOf('try again in 30 minutes')).toBe(1_800_000)
    expect(delayOf('try again in 99 hours')).toBe(limits.pauseMsMax)
    expect(delayOf('try again in 5 seconds')).toBeGreaterThan(50_000)
  })

  test('a wish that the message would not live to see does not end it: it keeps to the schedule', () => {
    const inHalfAnHour = claimed({ expiresAt: new Date(now.getTime() + 1_800_000) })
    for (const words of ['please come back in 45 minutes', 'no more than 100 messages in 24 hours']) {
      const ending = endingOf(inHalfAnHour, result({ phase: 'rcpt', ...said(450, `4.2.0 ${words}`) }), schedule)
      expect(ending, words).toMatchObject({ status: 'retrying', event: { reason: 'rcpt_4xx' } })
      expect(ending?.delayMs, words).toBeLessThan(67_000)
    }
  })

  test('after the last try: failed, and its soft bounce is the end', () => {
    const ending = endingOf(claimed({ attempt: retrySchedule.length + 1 }), deferred, schedule)
    expect(ending).toMatchObject({
      status: 'failed',
      error: 'No try is left. mx.example.org said to RCPT: 450 4.2.0 later',
      event: { reason: 'tries_used_up' },
      report: { type: 'soft_bounce', rank: 3, bounce: { final: true } },
    })
    expect(ending).not.toHaveProperty('delayMs')
  })

  test('what ends at the last try ends as it does at the first: sent is sent, and nobody knows stays so', () => {
    const last = claimed({ attempt: retrySchedule.length + 1, expiresAt: now })
    const ends = [said(250, '2.0.0 ok'), said(550, '5.7.1 spam'), { trouble: 'timeout' as const }].map((facts) =>
      endingOf(last, result({ ...pastDot, ...facts }), schedule),
    )
    expect(ends).toMatchObject([
      { status: 'sent' },
      { status: 'failed', event: { reason: 'eod_5xx' } },
      { status: 'delivery_unknown', event: { reason: 'eod_timeout' } },
    ])
  })

  test('where the next try would come too late: failed at once, and a next try at the very end is too late', () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.5)
    const endsIn = (ms: number) =>
      endingOf(claimed({ expiresAt: new Date(now.getTime() + ms) }), deferred, schedule)?.status
    const statuses = [endsIn(60_000), endsIn(60_001)]
    vi.restoreAllMocks()
    expect(statuses).toEqual(['failed', 'retrying'])
  })

  test('where the next try would come too late: failed at once, with its words', () => {
    const ending = endingOf(claimed({ expiresAt: new Date(now.getTime() + 50_000) }), deferred, schedule)
    expect(ending).toMatchObject({
      status: 'failed',
      event: { reason: 'expired' },
      error: expect.stringMatching(/^The message would expire before/),
    })
  })

  test('a shutdown hands back: due at once, no try used, however many there were and however old it is', () => {
    const old = claimed({ attempt: 10, expiresAt: now })
    for (const ending of [
      endingOf(old, result({ phase: 'rcpt', trouble: 'shutdown' }), schedule),
      unattempted(old, { kind: 'retry', reason: 'shutdown' }, schedule),
    ])
      expect(ending).toMatchObject({
        status: 'retrying',
        delayMs: 0,
        usesTry: false,
        event: { reason: 'shutdown', nextAttemptAt: now },
      })
  })
})

describe('an attempt that could not begin', () => {
  test.each([
    ['content_lost', 'The content of the message is gone.'],
    ['not_composable', 'The message could not be composed or signed.'],
  ] as const satisfies [FailReason, string][])('%s', (reason, words) => {
    expect(unattempted(claimed(), { kind: 'failed', reason }, schedule)).toMatchObject({
      status: 'failed',
      error: words,
      event: { reason, errorMessage: words },
      usesTry: true,
    })
  })

  test('a fault of ours is tried again, as long as there are tries', () => {
    expect(unattempted(claimed(), { kind: 'retry', reason: 'worker_lost' }, schedule)).toMatchObject({
      status: 'retrying',
      usesTry: true,
      error: 'The worker could not go on before the message was sent.',
      event: { reason: 'worker_lost', nextAttemptAt: expect.toSatisfy((at: Date) => at > now) },
    })
    expect(unattempted(claimed({ attempt: 10 }), { kind: 'retry', reason: 'worker_lost' }, schedule)).toMatchObject({
      status: 'failed',
      event: { reason: 'tries_used_up' },
      error: expect.stringContaining('No try is left.'),
    })
  })
})

test.each([
  ['ECONNREFUSED', 'it was refused'],
  ['ETIMEDOUT', 'nobody answered in time'],
  ['EADDRNOTAVAIL', 'EADDRNOTAVAIL'],
])('a connection that was not made says why: %s', (cause, why) => {
  const ending = endingOf(claimed(), result({ phase: 'connect', trouble: 'connect_failed', cause }), schedule)
  const words = `No connection could be made: ${why}. (mx.example.org, connect)`
  expect(ending).toMatchObject({ error: words, event: { errorMessage: words }, attempt: { cause } })
})

describe('an attempt that is put off', () => {
  const words = 'The destination wants fewer messages for now; nobody was asked.'
  const { peer: _nobody, ...paced } = result({ phase: 'connect', trouble: 'paced' })

  test.each([1, retrySchedule.length + 1])('waits as long as it was told to and uses no try, at try %i', (attempt) => {
    expect(putOff(claimed({ attempt }), 90_000, paced, schedule)).toMatchObject({
      status: 'retrying',
      outcome: 'retry',
      usesTry: false,
      delayMs: 90_000,
      error: words,
      attempt: { attempt, trouble: 'paced' },
      event: { attempt, reason: 'connect', nextAttemptAt: new Date(now.getTime() + 90_000), errorMessage: words },
    })
  })

  test('behind hosts that were asked says what the last of them did, and not that nobody was', () => {
    const refused = { phase: 'connect', trouble: 'connect_failed', cause: 'ECONNREFUSED', peer } as const
    const late = { ...paced, late: true, attemptsOnHosts: [refused] } as const
    expect(putOff(claimed(), limits.gaveWayMs, late, schedule)).toMatchObject({
      usesTry: false,
      error:
        'The destination wants fewer messages for now; nobody else was asked. No connection could be made: it was refused. (mx.example.org, connect)',
    })
  })

  test('beyond its end keeps to the schedule, and says why like any other', () => {
    const putOffUntil = (endMs: number, delayMs: number) =>
      putOff(claimed({ expiresAt: new Date(now.getTime() + endMs) }), delayMs, paced, schedule)
    expect(putOffUntil(600_000, 599_999)).toMatchObject({ usesTry: false, delayMs: 599_999 })
    expect(putOffUntil(600_000, 600_000)).toMatchObject({
      status: 'retrying',
      usesTry: true,
      error: words,
      attempt: { trouble: 'paced' },
      event: { errorMessage: words },
    })
    expect(putOffUntil(10_000, 20_000)).toMatchObject({
      status: 'failed',
      error: `The message would expire before the next try. ${words}`,
      event: { reason: 'expired' },
    })
  })

  test.each([
    ['arm_failed', { needsDisarm: true }],
    ['too_late', disarmed],
  ] as const)('by a lack of our own (%s) says so, and where it was armed that no dot was written', (trouble, seen) => {
    expect(putOff(claimed(), 1_000, result({ phase: 'arm', trouble, ...seen }), schedule)).toMatchObject({
      status: 'retrying',
      usesTry: false,
      delayMs: 1_000,
      evidence: 'not_written',
      event: { reason: 'arm_failed' },
    })
  })

  test('again and again waits twice as long each time, up to the first pause of the schedule', () => {
    const waits = (epoch: number, timeScale = 1) =>
      ourLackMs(claimed({ epoch, attempt: 1 }), { ...schedule, timeScale })
    expect(waits(1, 4)).toBe(limits.ourLackMs / 4)
    expect([1, 2, 3, 7, 8, 5_000].map((epoch) => waits(epoch))).toEqual([1_000, 2_000, 4_000, 60_000, 60_000, 60_000])
  })

  const made = 'The message made way for others while it waited for an answer, or for room.'

  test('to make way for others says so, and what was seen until then', () => {
    const cut = result({
      phase: 'ehlo',
      trouble: 'shutdown',
      dialogue: [
        { stage: 'greeting', said: '', reply: { code: 220, text: 'hello' } },
        { stage: 'ehlo', said: 'EHLO out.test', trouble: 'shutdown' },
      ],
    })
    const words = `${made} (mx.example.org, ehlo)`
    expect(putOff(claimed(), 20_000, gaveWay(cut), schedule)).toMatchObject({
      status: 'retrying',
      usesTry: false,
      delayMs: 20_000,
      error: words,
      attempt: {
        trouble: 'gave_way',
        phase: 'ehlo',
        smtp: { host: 'mx.example.org' },
        dialogue: [{ reply: '220 hello' }, { said: 'EHLO out.test', trouble: 'gave_way' }],
      },
      event: { reason: 'connect', errorMessage: words },
    })
    // Before it had begun.
    expect(putOff(claimed(), 10_000, gaveWay(), schedule)).toMatchObject({
      error: made,
      attempt: { trouble: 'gave_way', phase: 'route', dialogue: [] },
    })
  })

  test('waits twice as long each time that it makes way, for all of it is told; and not past half of its time', () => {
    const waits = (times: number, leftMs = limits.messageAgeMsMax) =>
      gaveWayMs(claimed({ epoch: 4 + times, attempt: 4, expiresAt: new Date(now.getTime() + leftMs) }), now)
    expect([0, 1, 2, 5, 6, 100].map((times) => waits(times))).toEqual([
      10_000, 20_000, 40_000, 320_000, 600_000, 600_000,
    ])
    expect([waits(6, 120_001), waits(6, 15_000), waits(0, 5_000)]).toEqual([60_001, 10_000, 10_000])
    // A day of silence is told some 150 times, and not 8,000.
    let [rounds, at] = [0, 0]
    for (; at < 86_400_000; rounds++) at += waits(rounds, 86_400_000 - at)
    expect(rounds).toBeLessThan(160)
  })
})
