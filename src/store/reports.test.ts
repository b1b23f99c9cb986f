// Recording what providers report: each report once, one final status whatever the order, and never a word about the processing state.
import { beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { rankOf } from '../domain/delivery-status.ts'
import type { Claim, DeliveryEventType, MessageId } from '../domain/message.ts'
import { makeReportRecorder, pruneReports, type ReportRow } from './reports.ts'
import { storeWorld, type Sender } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'

let sender: Sender
const world = await storeWorld()
const record = makeReportRecorder(world.db)
beforeEach(async () => {
  sender = await world.sender()
})

const print = (text: string): string => Buffer.from(text.padEnd(32, '.')).toString('hex')

function report(id: MessageId, type: DeliveryEventType, final = true, name = `${type} ${final}`): ReportRow {
  const bounce = type.endsWith('bounce') ? { class: 'x', rule: 'some-rule', permanent: final, final } : undefined
  const suppress = type === 'hard_bounce' || type === 'complaint' ? type : undefined
  return {
    id,
    workspaceId: sender.workspaceId,
    fingerprint: print(name),
    type,
    rank: rankOf({ type, final }),
    detail: `said ${name}`,
    ...(bounce && { bounce, rule: bounce.rule }),
    facts: { ...(bounce && { bounce }) },
    source: 'dsn',
    ...(suppress && { suppress }),
  }
}

/** A message that was armed and then came to this state. */
async function message(status = 'sent', recipient = 'ann@example.org'): Promise<MessageId> {
  const [claim] = (await world.claimed(sender, [{ armed: true, recipient }])) as Claim[] as [Claim]
  if (status !== 'sending') {
    await world.db.run('delete from outbound where message_id = $1', [claim.id])
    await world.db.run(`update messages set status = $2, finished_at = app_now() where id = $1`, [claim.id, status])
  }
  return claim.id
}

const standing = async (id: MessageId) =>
  (
    await world.db.run<{ line: string }>(
      `select concat_ws(' ', status, delivery_rank, sequence) line from messages where id = $1`,
      [id],
    )
  )[0]?.line
const suppressed = async () =>
  (
    await world.db.run<{ line: string }>(
      `select concat_ws(' ', recipient, reason, rule, evidence) line from suppressions where workspace_id = $1 order by 1`,
      [sender.workspaceId],
    )
  ).map(({ line }) => line)

describe('one final status', () => {
  const kinds = [
    ['soft_bounce', false],
    ['delivered', true],
    ['soft_bounce', true],
    ['hard_bounce', true],
    ['complaint', true],
  ] as const
  function* orders<T>(items: readonly T[]): Generator<T[]> {
    if (items.length === 0) return yield []
    for (const [at, item] of items.entries()) for (const rest of orders(items.toSpliced(at, 1))) yield [item, ...rest]
  }
  const endsOf: Readonly<Record<string, readonly (readonly [DeliveryEventType, boolean])[]>> = {
    'delayed, delivered': [kinds[0], kinds[1]],
    'delayed, delivered, failed for good': [kinds[0], kinds[1], kinds[3]],
    'delayed, delivered, given up, complaint': [kinds[0], kinds[1], kinds[2], kinds[4]],
    'all five': kinds,
  }

  test.each(Object.entries(endsOf))('%s: in every order, with repeats', async (_, reports) => {
    const highest = Math.max(...reports.map(([type, final]) => rankOf({ type, final })))
    const all = [...orders(reports)]
    const ids = await Promise.all(all.map(() => message()))
    await Promise.all(
      all.map(async (order, at) => {
        const id = ids[at] as MessageId
        for (const [type, final] of [...order, order[0] as (typeof order)[number]])
          await record(report(id, type, final))
      }),
    )
    const rows = await world.db.run<{
      status: string
      delivery_rank: number
      sequence: number
      events: number
      last: number
    }>(
      `select m.status, m.delivery_rank, m.sequence, count(e.*)::int events, max(e.delivery_rank) last from messages m
         join events e on e.workspace_id = m.workspace_id and e.message_id = m.id where m.workspace_id = $1 group by 1, 2, 3`,
      [sender.workspaceId],
    )
    const sequence = 2 + reports.length
    const total = ids.length * sequence
    expect(rows).toEqual([{ status: 'sent', delivery_rank: highest, sequence, events: total, last: highest }])
  })

  test('several reports in one statement number their events without gaps, each with the status so far', async () => {
    const id = await message()
    await Promise.all([report(id, 'delivered'), report(id, 'soft_bounce', false), report(id, 'complaint')].map(record))
    expect((await world.history(id)).slice(2)).toEqual([
      '3 message.delivered sent 2',
      '4 message.soft_bounced sent 2',
      '5 message.complained sent 5',
    ])
  })

  test('a delay that is heard of after the failure is an end, and what is worse stays so', async () => {
    const id = await message('failed')
    await world.db.run(
      `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, app_now(), 'retry', '{"phase": "eod"}')`,
      [sender.workspaceId, id],
    )
    expect(await record(report(id, 'soft_bounce', false))).toBe('recorded')
    expect(await standing(id)).toBe('failed 3 3')
    expect(await world.value('select bounce from reports where message_id = $1', [id])).toMatchObject({ final: true })
    expect(await record(report(id, 'hard_bounce'))).toBe('recorded')
    expect(await record(report(id, 'delivered'))).toBe('recorded')
    const told = (await world.history(id)).slice(-2)
    expect(told).toEqual(['4 message.hard_bounced failed 4', '5 message.delivered failed 4'])
  })
})

test('a report that meets another change of its message is numbered behind it', async () => {
  const id = await message()
  const other = await world.holding('update messages set sequence = sequence + 1 where id = $1', [id])
  let asked = 0
  const answered = () => (++asked === 1 ? other.query('commit') : undefined)
  const recordBehind = makeReportRecorder(watched(world.db, { answered }))
  expect(await recordBehind(report(id, 'delivered'))).toBe('recorded')
  expect(asked).toBe(2)
  expect([(await world.history(id)).at(-1), await standing(id)]).toEqual(['4 message.delivered sent 2', 'sent 2 4'])
})

describe('the same report', () => {
  test('a hundred copies at once, over two nodes, are one event and one suppression', async () => {
    const id = await message()
    const other = makeReportRecorder(world.anotherNode())
    const copies = Array.from({ length: 100 }, (_, n) => (n % 2 === 0 ? record : other)(report(id, 'hard_bounce')))
    const answers = await Promise.all(copies)
    expect(answers.filter((answer) => answer === 'recorded')).toHaveLength(1)
    expect(answers.filter((answer) => answer === 'repeated')).toHaveLength(99)
    expect((await world.history(id)).slice(2)).toEqual(['3 message.hard_bounced sent 4'])
    expect(await world.value('select count(*)::int from reports where message_id = $1', [id])).toBe(1)
    expect(await suppressed()).toEqual(['ann@example.org hard_bounce some-rule said hard_bounce true'])
  })

  test('of two messages are two', async () => {
    const [one, two] = [await message(), await message()]
    expect(await Promise.all([record(report(one, 'delivered')), record(report(two, 'delivered'))])).toEqual([
      'recorded',
      'recorded',
    ])
  })

  test('is remembered as long as the record may be there', async () => {
    const id = await message()
    await record(report(id, 'delivered'))
    const seen = (days: number) =>
      world.db.run(`update report_fingerprints set seen_at = app_now() - $2 * interval '1 day' where message_id = $1`, [
        id,
        days,
      ])
    await seen(365 + 27)
    await pruneReports(world.db, 365)
    expect(await record(report(id, 'delivered'))).toBe('repeated')
    await seen(365 + 29)
    await pruneReports(world.db, 365)
    expect(await world.value('select count(*)::int from report_fingerprints where message_id = $1', [id])).toBe(0)
  })
})

describe('whom a report is believed about', () => {
  test.each([
    ['sent', 'recorded'],
    ['delivery_unknown', 'recorded'],
    ['failed', 'not_armed'],
  ])('a message that is %s: %s', async (status, answer) => {
    const id = await message(status)
    const before = await standing(id)
    expect(await record(report(id, 'hard_bounce'))).toBe(answer)
    expect((await standing(id))?.split(' ')[0]).toBe(status)
    if (answer === 'not_armed') {
      expect(await standing(id)).toBe(before)
      expect(await suppressed()).toEqual([])
    }
  })

  test.each([
    ['rcpt', 'not_armed'],
    ['eod', 'recorded'],
  ])('one that failed after an attempt that ended at %s: %s', async (phase, answer) => {
    const id = await message('failed')
    await world.db.run(
      `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, app_now(), 'failed', $3)`,
      [sender.workspaceId, id, JSON.stringify({ attempt: 1, phase })],
    )
    expect(await record(report(id, 'complaint'))).toBe(answer)
    expect(await suppressed()).toHaveLength(answer === 'recorded' ? 1 : 0)
  })

  test('one that is on its way: only once it is armed', async () => {
    const [armed, unarmed] = await world.claimed(sender, [{ armed: true }, {}])
    expect(await record(report(armed?.id as MessageId, 'delivered'))).toBe('recorded')
    expect(await record(report(unarmed?.id as MessageId, 'delivered'))).toBe('not_armed')
  })

  test("nobody else's, and none that is not there", async () => {
    const id = await message()
    const other = await world.sender()
    expect(await record({ ...report(id, 'complaint'), workspaceId: other.workspaceId })).toBe('not_armed')
    expect(await record(report(world.nextId(), 'complaint'))).toBe('not_armed')
    expect(await standing(id)).toBe('sent 0 2')
  })

  test('a message has an end to its reports, whoever writes them', async () => {
    const id = await message()
    const write = (many: number, name: string) =>
      Promise.all(Array.from({ length: many }, (_, at) => record(report(id, 'soft_bounce', false, `${name} ${at}`))))
    await write(limits.reportsPerMessageMax - 1, 'delayed')
    expect(await record(report(id, 'delivered'))).toBe('recorded')
    expect(await record(report(id, 'complaint'))).toBe('too_many')
    expect(await write(2, 'again')).toEqual(['too_many', 'too_many'])
    expect(await standing(id)).toBe(`sent 2 ${2 + limits.reportsPerMessageMax}`)
    expect(await suppressed()).toEqual([])
  })

  test('events of our own leave room for reports: a message that was put off very often has very many', async () => {
    const id = await message()
    await world.db.run('update messages set sequence = $2 where id = $1', [id, 3 * limits.reportsPerMessageMax])
    await world.db.run(
      `insert into reports (workspace_id, message_id, sequence, type, source, created_at)
       select $1, $2, n, 'soft_bounce', 'session', app_now() from generate_series(1, $3) n`,
      [sender.workspaceId, id, limits.reportsPerMessageMax],
    )
    const both = [report(id, 'delivered'), report(id, 'complaint')]
    expect(await Promise.all(both.map(record))).toEqual(['recorded', 'recorded'])
    expect(await record(report(id, 'complaint'))).toBe('repeated')
    expect(await standing(id)).toBe(`sent 5 ${3 * limits.reportsPerMessageMax + 2}`)
    expect(await suppressed()).toHaveLength(1)
  })

  test('a suppression that is there keeps its reason', async () => {
    const [one, two] = [await message(), await message()]
    await record(report(one, 'complaint'))
    await record(report(two, 'hard_bounce'))
    expect(await suppressed()).toEqual([expect.stringContaining('ann@example.org complaint')])
  })
})
