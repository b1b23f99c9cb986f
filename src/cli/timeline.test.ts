// The operator's view of one message: words and lines instead of one long line of JSON, and nothing that was kept left out.
import { expect, test } from 'vitest'
import type { MessageId } from '../domain/message.ts'
import type { MessageStory, Timeline } from '../workspace/workspace.ts'
import { describeMessage } from './timeline.ts'

const at = new Date('2026-11-24T10:00:00.000Z')
const next = '2026-11-24T10:01:00.000Z'
const smtp = { host: 'mx.example.com', address: '192.0.2.1', stage: 'rcpt', code: 450, reply: '4.2.0 later', tls: 'TLSv1.3' } // prettier-ignore
const errorMessage = 'mx.example.com said to RCPT: 450 4.2.0 later'
const dialogue = [
  { stage: 'greeting', said: '', reply: '220 mx.example.com ESMTP' },
  { stage: 'ehlo', said: 'EHLO mail.example.org', reply: '250 mx.example.com\nSIZE 1000\n8BITMIME' },
  { stage: 'rcpt', said: 'RCPT TO:<ann@example.com>', reply: '450 4.2.0 later' },
  { stage: 'rcpt', said: 'RSET', trouble: 'lost_by_a_word_of_tomorrow' },
]

function message(more: Partial<Timeline> = {}): Timeline {
  return {
    id: '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d',
    workspaceId: '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c01',
    mailboxId: '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c02',
    status: 'retrying',
    deliveryStatus: 'soft_bounce',
    sender: 's@example.org',
    recipient: 'ann@example.com',
    subject: 'Hi',
    bodyText: '',
    createdAt: at,
    events: [event(1, 'message.queued'), event(2, 'message.retrying', { attempt: 1, smtp, reason: 'rcpt_4xx', nextAttemptAt: next, errorMessage })], // prettier-ignore
    attempts: [{ epoch: 1, outcome: 'retrying', endedAt: at, facts: { attempt: 1, smtp, startedAt: at.toISOString(), phase: 'rcpt', tlsPolicy: 'dane', reason: 'rcpt_4xx', dialogue } }], // prettier-ignore
    reports: [],
    queue: { status: 'retrying', destination: 'example.com', dueAt: new Date(next), expiresAt: at, attempts: 1, armed: false, stopped: false }, // prettier-ignore
    ...more,
  } as Timeline
}

function event(sequence: number, type: string, facts?: object): Timeline['events'][number] {
  return { id: 'e', sequence, type, status: 'retrying', deliveryStatus: 'pending', occurredAt: at, ...(facts !== undefined && { facts }) } as Timeline['events'][number] // prettier-ignore
}

test("where it is the reader's turn the command to paste stands there, until somebody has given it", () => {
  const again = './bin/posthorn message send-again 0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d'
  const told = (status: Timeline['status'], more: Partial<MessageStory> = {}) =>
    describeMessage({ ...message({ status }), ...more })
  const sendAgainAt = new Date('2026-11-24T10:15:00.000Z')
  expect(told('delivery_unknown', { sendAgainAt })).toContain(
    ` a missing copy does more harm than a second one, from 2026-11-24T10:15:00.000Z on: ${again}`,
  )
  expect(told('failed', { sendAgainAt })).toContain(`what to do: when the cause is mended: ${again}`)
  for (const status of ['sent', 'retrying'] as const) expect(told(status)).not.toContain('what to do')
  expect(told('failed', { sentAgainAs: '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7e' as MessageId })).not.toContain(
    'what to do',
  )
  // Its content is gone, or it came all the same: the command would be refused.
  for (const status of ['failed', 'delivery_unknown'] as const) expect(told(status)).not.toContain('what to do')
})

test('the dialogue of an attempt stands line by line, with who said it, and where it took place', () => {
  expect(describeMessage(message())).toContain(
    [
      'ATTEMPT 1',
      'outcome: retrying',
      'facts:   try 1; rcpt_4xx',
      'began:   2026-11-24T10:00:00.000Z',
      'ended:   2026-11-24T10:00:00.000Z',
      'host:    mx.example.com (192.0.2.1)',
      'tls:     TLSv1.3, demanded by dane',
      'came to: rcpt',
      '  them: 220 mx.example.com ESMTP',
      '  us:   EHLO mail.example.org',
      '  them: 250 mx.example.com',
      '        SIZE 1000',
      '        8BITMIME',
      '  us:   RCPT TO:<ann@example.com>',
      '  them: 450 4.2.0 later',
      '  us:   RSET',
      '  !     lost by a word of tomorrow',
    ].join('\n'),
  )
})

test('an attempt that was never connected says what was in the way, and of no encryption', () => {
  const { tls: _none, code: _code, reply: _reply, ...nobody } = { ...smtp, stage: 'connect' }
  const trouble = { trouble: 'connect_failed', cause: 'ECONNREFUSED' }
  const facts = { attempt: 1, smtp: nobody, phase: 'connect', reason: 'connect', ...trouble, dialogue: [{ stage: 'connect', said: 'connect 192.0.2.1 25', ...trouble }] } // prettier-ignore
  const text = describeMessage(message({ attempts: [{ epoch: 1, outcome: 'retry', endedAt: at, facts }] }))
  expect(text).toMatch(/^trouble: connect failed \(ECONNREFUSED\)$/m)
  expect(text).toContain('  us:   connect 192.0.2.1 25\n  !     connect failed (ECONNREFUSED)')
  expect(text).toContain('facts:   try 1; connect\n')
  expect(text).not.toContain('tls:')
})

test('an event says in words why, what was replied, and when the next try is', () => {
  const text = describeMessage(message())
  expect(text).toContain(`try 1; rcpt_4xx: ${errorMessage}; next try ${next}\n`)
  expect(text).toMatch(/^next try: +2026-11-24T10:01:00.000Z, or soon after$/m)
  expect(text).not.toMatch(/[{}"]/)
})

test('while delivery is stopped no time of a next try is promised', () => {
  const { queue } = message()
  const text = describeMessage(message({ ...(queue !== undefined && { queue: { ...queue, stopped: true } }) }))
  expect(text).toMatch(/^next try: +when delivery goes on.*posthorn doctor/m)
})

test.each([
  ['a reply without an error', { smtp: { ...smtp, code: 250, reply: '2.0.0 Ok' } }, 'mx.example.com said: 250 2.0.0 Ok'], // prettier-ignore
  ['a bounce', { bounce: { class: 'bad_mailbox', rule: 'r1', final: true, permanent: true }, suppressed: true }, 'bad_mailbox, by rule r1, final; the recipient is suppressed now'], // prettier-ignore
  ['facts of another release', { moon: { phase: 1 } }, 'moon {"phase":1}'],
])('%s is told whole', (_, facts, words) => {
  expect(describeMessage(message({ events: [event(1, 'message.sent', facts)] }))).toContain(`message.sent  ${words}\n`)
})

test('an attempt of which nothing is known but its end, and a dialogue of another shape, are told as they are', () => {
  const reaped = { epoch: 3, outcome: 'retrying', endedAt: at, facts: {} }
  const strange = { epoch: 4, outcome: 'sent', endedAt: at, facts: { dialogue: ['S: 451 later', null] } }
  expect(describeMessage(message({ attempts: [reaped, strange] }))).toMatch(
    /ATTEMPT 3\noutcome: +retrying\nended: [^\n]*\n\nATTEMPT 4\noutcome: +sent\nended: [^\n]*\n {2}S: 451 later\n {2}null$/,
  )
})
