// The acceptance commit on real PostgreSQL: exact quotas whoever asks and however many, windows at their edges, and the record, content,
// queue row, key and event together or not at all.
import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import { limits } from '../config.ts'
import { makeAdmitter, surelyNotAdmitted, type Admission, type AdmissionRow, type Admitter } from './admit.ts'
import { readBlob, stageBlob, sweepStagedBlobs } from './blobs.ts'
import { isDatabaseAway, openDatabase } from './database.ts'
import { readWindows } from './usage.ts'
import type { Armable } from './outbound.ts'
import { storeWorld, type Limits, type Sender } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'

const world = await storeWorld()
const here = makeAdmitter(world.db)
const there = makeAdmitter(world.anotherNode())
afterEach(() => world.setClock())

const admissions = (sender: Sender, n: number, by: readonly Admitter[]): Promise<Admission>[] =>
  Array.from({ length: n }, (_, i) => (by[i % by.length] as Admitter).admit(world.submission(sender)))
const admitMany = (sender: Sender, n: number, by: readonly Admitter[] = [here]): Promise<Admission[]> =>
  Promise.all(admissions(sender, n, by))
const admittedOf = (answers: readonly Admission[]): number => answers.filter((answer) => answer.admitted).length
const recordsOf = (sender: Sender): Promise<number> =>
  world.value<number>('select count(*)::integer from messages where workspace_id = $1', [sender.workspaceId])
const idOf = (row: AdmissionRow): string => row.fields['id'] as string
const countOf = (table: string, id: string): Promise<number> =>
  world.value<number>(`select count(*)::integer from ${table} where message_id = $1`, [id])

describe('an admission', () => {
  test('writes record, content, queue row and first event together', async () => {
    const sender = await world.sender({ hourly: 5, daily: 10, monthly: 20 })
    const row = world.submission(sender, { metadata: { order: '7' } })
    const answer = await here.admit(row)
    expect(answer).toMatchObject({
      admitted: true,
      sender: expect.stringMatching(/^post@w\d+\.example$/),
      suppressed: false,
      repeated_id: null,
      hourly: 5,
      daily: 10,
      monthly: 20,
      hour_used: 1,
      day_used: 1,
      month_used: 1,
    })
    expect(await world.history(row.fields['id'] as never)).toEqual(['1 message.queued queued 0'])
    const [record] = await world.db.run('select * from messages where id = $1', [idOf(row)])
    expect(record).toMatchObject({
      status: 'queued',
      sequence: 1,
      metadata: { order: '7' },
      created_at: answer.at,
      finished_at: null,
    })
    const [queued] = await world.db.run('select * from outbound where message_id = $1', [idOf(row)])
    expect(queued).toMatchObject({ status: 'queued', epoch: 0, attempts: 0, armed_epoch: null, due_at: answer.at })
    expect(await world.value('select body_text from contents where message_id = $1', [idOf(row)])).toBe('Good morning')
  })

  test('of a small workspace does not wait behind all that a busy one hands in at once, to a hundred recipients a mail', async () => {
    const [busy, small] = [await world.sender(), await world.sender()]
    const rowsOf: number[] = []
    const asked = (_: string, values: readonly unknown[]) =>
      rowsOf.push((JSON.parse(values[0] as string) as unknown[]).length)
    const admitter = makeAdmitter(watched(world.db, { asked }))
    const mail = () => Array.from({ length: 100 }, () => world.submission(busy))
    const groups = Array.from({ length: 60 }, () => admitter.admitGroup(mail(), performance.now() + 60_000))
    const alone = await admitter.admit(world.submission(small))
    expect(alone.admitted).toBe(true)
    expect(rowsOf.length).toBeLessThanOrEqual(2)
    const answers = (await Promise.all(groups)).flat()
    expect([admittedOf(answers), await recordsOf(busy)]).toEqual([6_000, 6_000])
    expect(Math.max(...rowsOf)).toBeLessThanOrEqual(limits.admitRowsMax)
  })

  // Somebody's psql, left open within a transaction that has given a customer more quota, kept everybody's mail from being accepted.
  test('waits for no other workspace whose quota somebody holds: that one alone is told to come back, or is admitted when it is free', async () => {
    const db = openDatabase(world.connection, {
      name: 'test',
      connectionsMax: 2,
      answerMs: limits.databaseAnswerMs,
      lockMs: limits.admissionLockMs,
    })
    const admitter = makeAdmitter(db)
    const [held, free] = [await world.sender(), await world.sender()]
    const holder = await world.holding('update usage set day_count = 0 where workspace_id = $1', [held.workspaceId])
    const heldBack = admitter.admit(world.submission(held))
    heldBack.catch(() => undefined)
    expect(admittedOf(await admitMany(free, 3, [admitter]))).toBe(3)
    const began = performance.now()
    const again = admitter.admit(world.submission(held))
    again.catch(() => undefined)
    expect(admittedOf(await admitMany(free, 3, [admitter]))).toBe(3)
    expect(performance.now() - began).toBeLessThan(limits.admissionLockMs)
    const error = await heldBack.catch((error: unknown) => error)
    expect([isDatabaseAway(error), surelyNotAdmitted(error)]).toEqual([true, true])
    await expect(again).rejects.toThrow()
    const late = admitter.admit(world.submission(held))
    expect(admittedOf(await admitMany(free, 1, [admitter]))).toBe(1)
    await holder.query('commit')
    expect((await late).admitted).toBe(true)
    expect([await recordsOf(held), await recordsOf(free)]).toEqual([1, 7])
    await db.close()
  })

  // Nobody's mail was accepted for as long as that one could wait.
  test('waits for no message that is to be sent again whose record somebody holds: that one alone is told to come back', async () => {
    const [busy, free] = [await world.sender(), await world.sender()]
    const [failed] = (await world.claimed(busy, [{}])) as [Armable]
    await world.db.run('delete from outbound where message_id = $1', [failed.id])
    await world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [failed.id])
    const db = openDatabase(world.connection, {
      name: 'test',
      connectionsMax: 2,
      answerMs: limits.databaseAnswerMs,
      lockMs: limits.admissionLockMs,
    })
    const admitter = makeAdmitter(db)
    const again = () =>
      admitter.admit(
        world.submission(busy, { endpoint: 'send_again', idem: `${failed.id}+900`, hash: failed.id, keep_ms: null }),
      )
    const holder = await world.holding('select from messages where id = $1 for update', [failed.id])
    const heldBack = again().catch((error: unknown) => error)
    expect(admittedOf(await admitMany(free, 3, [admitter]))).toBe(3)
    const error = await heldBack
    expect([isDatabaseAway(error), surelyNotAdmitted(error)]).toEqual([true, true])
    await holder.query('rollback')
    const ranked = (rank: number) =>
      world.db.run('update messages set delivery_rank = $2 where id = $1', [failed.id, rank])
    await ranked(2)
    await expect(again()).rejects.toMatchObject({ code: 'PH001' })
    await ranked(4)
    expect((await again()).admitted).toBe(true)
    await db.close()
  })

  test('that its caller has stopped waiting for is not tried again when a lock has ended its statement', async () => {
    const sender = await world.sender()
    const holder = await world.holding('select from usage where workspace_id = $1 for update', [sender.workspaceId])
    const db = openDatabase(world.connection, { name: 'test', connectionsMax: 1, answerMs: limits.admissionMs + 100 })
    let statements = 0
    const counting = watched(db, { asked: () => statements++ })
    const answers = await Promise.allSettled(admissions(sender, 4, [makeAdmitter(counting)]))
    expect(answers).toEqual(
      Array(4).fill(expect.objectContaining({ reason: expect.objectContaining({ name: 'AdmissionTooLate' }) })),
    )
    expect(answers.every((answer) => answer.status === 'rejected' && isDatabaseAway(answer.reason))).toBe(true)
    expect(statements).toBe(1)
    await holder.query('rollback')
    await db.close()
    expect(await recordsOf(sender)).toBe(0)
  })

  test('that a lock has held up until its caller had gone is not admitted, but its neighbour in the batch, whose caller waits', async () => {
    const sender = await world.sender()
    const holder = await world.holding('select from usage where workspace_id = $1 for update', [sender.workspaceId])
    const admitter = makeAdmitter(world.anotherNode())
    const admit = (ms: number) => admitter.admitGroup([world.submission(sender)], performance.now() + ms)
    const answers = Promise.allSettled([admit(limits.admissionKeepMs + 100), admit(60_000)])
    const held = `select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0 and clock_timestamp() > xact_start + interval '200 ms'`
    while ((await world.db.run(held)).length === 0);
    await holder.query('rollback')
    expect(await answers).toMatchObject([
      { status: 'rejected', reason: { name: 'AdmissionTooLate' } },
      { status: 'fulfilled', value: [{ admitted: true }] },
    ])
    expect(await recordsOf(sender)).toBe(1)
  })

  test('that waited for its line to the database until its caller had gone is not admitted', async () => {
    const sender = await world.sender()
    const proxy = await startPostgresProxy(world.connection)
    const db = openDatabase(
      { ...world.connection, host: '127.0.0.1', port: proxy.port },
      { name: 'test', connectionsMax: 1, answerMs: 30_000 },
    )
    proxy.hold(true)
    const until = performance.now() + limits.admissionKeepMs + 100
    const answer = makeAdmitter(db).admitGroup([world.submission(sender)], until)
    await expect.poll(() => performance.now() > until).toBe(true)
    proxy.hold(false)
    await expect(answer).rejects.toMatchObject({ name: 'AdmissionTooLate' })
    await db.close()
    await proxy.stop()
    expect(await recordsOf(sender)).toBe(0)
  })

  test('of several that travel together, each has its own verdict and its own files', async () => {
    const admitter = makeAdmitter(world.anotherNode())
    const senders = await Promise.all(Array.from({ length: 4 }, () => world.sender()))
    const rows = senders.map((sender, n) => {
      const blob = world.nextId()
      const bytes = Buffer.from(`file ${n}`)
      const about = { position: 0, filename: 'a', content_type: 'text/plain', size: bytes.length, blob }
      const files = { files: [about], chunks: [{ blob, bytes: bytes.toString('base64') }] }
      return { ...world.submission(sender, n % 2 === 0 ? files : {}), ...(n % 2 === 0 && { scan: { of: n } }) }
    })
    expect(admittedOf(await Promise.all(rows.map((row) => admitter.admit(row))))).toBe(4)
    const kept = 'select record from scans where workspace_id = $1 and message_id = $2'
    for (const [n, row] of rows.entries()) {
      const records = await world.db.run<{ record: object }>(kept, [row.workspaceId, idOf(row)])
      expect(records.map(({ record }) => record)).toEqual(n % 2 === 0 ? [{ of: n }] : [])
      expect(await countOf('attachments', idOf(row))).toBe(n % 2 === 0 ? 1 : 0)
    }
  })

  test('ends at expiresAt or at the greatest age, whichever is first', async () => {
    const sender = await world.sender()
    const soon = world.submission(sender, { expires: '2026-03-01T10:00:00.000Z' })
    const late = world.submission(sender, { expires: '2026-04-01T10:00:00.000Z' })
    await world.setClock('2026-03-01T00:00:00Z')
    await Promise.all([here.admit(soon), here.admit(late)])
    const expiryOf = (row: AdmissionRow) =>
      world.value<Date>('select expires_at from outbound where message_id = $1', [idOf(row)])
    expect((await expiryOf(soon)).toISOString()).toBe('2026-03-01T10:00:00.000Z')
    expect((await expiryOf(late)).toISOString()).toBe('2026-03-02T02:00:00.000Z')
  })

  test('looking answers the same and writes nothing', async () => {
    const sender = await world.sender({ hourly: 1 })
    expect(await here.look(world.submission(sender))).toMatchObject({
      admitted: false,
      hourly: 1,
      hour_used: 0,
      suppressed: false,
    })
    expect(await recordsOf(sender)).toBe(0)
    expect(admittedOf(await admitMany(sender, 1))).toBe(1)
    expect(await here.look(world.submission(sender))).toMatchObject({ admitted: false, hour_used: 1 })
  })

  test('says nothing about a mailbox that may not send, and admits nothing for it', async () => {
    const [mine, other] = [await world.sender(), await world.sender()]
    const pending = await world.sender()
    await world.db.run(`update domains set status = 'pending' where id = $1`, [pending.domainId])
    const disabled = await world.sender()
    await world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [disabled.mailboxId])
    const rows = [
      world.submission(mine, { mailbox: world.nextId() }),
      world.submission(mine, { mailbox: other.mailboxId }),
      world.submission(pending),
      world.submission(disabled),
    ]
    const answers = await Promise.all(rows.map((row) => here.admit(row)))
    expect(answers.map(({ admitted, sender }) => ({ admitted, sender }))).toEqual(
      rows.map(() => ({ admitted: false, sender: null })),
    )
  })

  test('a degraded domain still sends', async () => {
    const sender = await world.sender()
    await world.db.run(`update domains set status = 'degraded' where id = $1`, [sender.domainId])
    expect(admittedOf(await admitMany(sender, 1))).toBe(1)
  })

  test('a suppressed recipient is refused in this workspace only, at the simulator like anywhere', async () => {
    const [mine, other] = [await world.sender({ hourly: 9 }), await world.sender()]
    const suppress = (key: string) =>
      world.db.run(
        `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual')`,
        [mine.workspaceId, key],
      )
    await suppress('ann@example.org')
    await suppress('delivered@simulator.posthorn.test')
    const simulated = {
      recipient: 'delivered@simulator.posthorn.test',
      recipient_key: 'delivered@simulator.posthorn.test',
      destination: 'simulator.posthorn.test',
    }
    const answers = await Promise.all([
      here.admit(world.submission(mine)),
      here.admit(world.submission(other)),
      here.admit(world.submission(mine, simulated)),
    ])
    expect(answers.map(({ admitted, suppressed }) => [admitted, suppressed])).toEqual([
      [false, true],
      [true, false],
      [false, true],
    ])
    expect(await here.look(world.submission(mine))).toMatchObject({ hour_used: 0 })
  })

  test.each([
    ['a text that PostgreSQL cannot hold', (sender: Sender) => world.submission(sender, { subject: 'a\0b' })],
    ['an id that exists', (sender: Sender, first: AdmissionRow) => world.submission(sender, { id: idOf(first) })],
  ])('%s fails alone: its neighbours in the batch are admitted', async (_, poisoned) => {
    const sender = await world.sender({ hourly: 100 })
    const first = world.submission(sender)
    await here.admit(first)
    const rows = Array.from({ length: 9 }, (_, i) => (i === 4 ? poisoned(sender, first) : world.submission(sender)))
    const ends = await Promise.allSettled(rows.map((row) => here.admit(row)))
    expect(ends.map(({ status }) => status)).toEqual(rows.map((_, i) => (i === 4 ? 'rejected' : 'fulfilled')))
    expect(await recordsOf(sender)).toBe(9)
    expect(await here.look(world.submission(sender))).toMatchObject({ hour_used: 9 })
  })
})

describe('quotas', () => {
  const windows: readonly [string, (k: number) => Limits][] = [
    ['hour', (k) => ({ hourly: k })],
    ['day', (k) => ({ daily: k })],
    ['month', (k) => ({ monthly: k })],
  ]

  test.each(windows)(
    'a batch larger than what the %s leaves admits exactly the first ones, in order',
    async (_, plan) => {
      const sender = await world.sender(plan(7))
      const answers = await admitMany(sender, 20)
      expect(answers.map(({ admitted }) => admitted)).toEqual(answers.map((_, i) => i < 7))
      expect(await recordsOf(sender)).toBe(7)
    },
  )

  test.each(windows)('two nodes at once against what the %s leaves accept exactly that', async (_, plan) => {
    const sender = await world.sender(plan(50))
    expect(admittedOf(await admitMany(sender, 17))).toBe(17)
    const answers = await admitMany(sender, 150, [here, there])
    expect(admittedOf(answers)).toBe(33)
    expect(await recordsOf(sender)).toBe(50)
    expect(await countQueued(sender)).toBe(50)
    expect(admittedOf(await admitMany(sender, 3, [here, there]))).toBe(0)
  })
  const countQueued = (sender: Sender) =>
    world.value<number>('select count(*)::integer from outbound where workspace_id = $1', [sender.workspaceId])

  test('batches of many workspaces from two nodes neither deadlock nor mix their quotas', async () => {
    const senders = await Promise.all(Array.from({ length: 6 }, (_, i) => world.sender({ hourly: 5 + i })))
    const asked = Array.from({ length: 40 }, (_, i) => i).flatMap((i) => (i % 2 === 0 ? senders : senders.toReversed()))
    await Promise.all(asked.map((sender, i) => (i % 2 === 0 ? here : there).admit(world.submission(sender))))
    expect(await Promise.all(senders.map(recordsOf))).toEqual(senders.map((_, i) => 5 + i))
  })

  test('whoever is refused is not charged, whatever the reason', async () => {
    const sender = await world.sender({ hourly: 2, daily: 100, monthly: 100 })
    const strangers = [
      world.submission(sender, { mailbox: world.nextId() }),
      world.submission(sender, { mailbox: world.nextId() }),
    ]
    const answers = await Promise.all(
      [...strangers, ...Array.from({ length: 5 }, () => world.submission(sender))].map((row) => here.admit(row)),
    )
    // The refused ones stand before the good ones, and take nothing of what is left.
    expect(answers.map(({ admitted }) => admitted)).toEqual([false, false, true, true, false, false, false])
    expect(await here.look(world.submission(sender))).toMatchObject({ hour_used: 2, day_used: 2, month_used: 2 })
  })

  test.each(windows)('a group that the %s has no room for takes none from whoever comes with it', async (_, plan) => {
    const sender = await world.sender(plan(5))
    const group = Array.from({ length: 6 }, () => world.submission(sender))
    const [whole, alone] = await Promise.all([here.admitGroup(group, Infinity), here.admit(world.submission(sender))])
    expect([admittedOf(whole), alone.admitted]).toEqual([0, true])
    expect(await recordsOf(sender)).toBe(1)
  })

  test.each(windows)(
    'a group whose room in the %s somebody before it takes is not admitted in part',
    async (_, plan) => {
      const sender = await world.sender(plan(5))
      const group = Array.from({ length: 5 }, () => world.submission(sender))
      const [alone, whole] = await Promise.all([here.admit(world.submission(sender)), here.admitGroup(group, Infinity)])
      expect([alone.admitted, admittedOf(whole)]).toEqual([true, 0])
      expect(await recordsOf(sender)).toBe(1)
    },
  )

  test('the tightest window counts', async () => {
    const sender = await world.sender({ hourly: 5, daily: 3, monthly: 4 })
    expect(admittedOf(await admitMany(sender, 9))).toBe(3)
  })

  test('no limit is none, and a limit of nothing admits nothing', async () => {
    expect(admittedOf(await admitMany(await world.sender(), 600))).toBe(600)
    expect(admittedOf(await admitMany(await world.sender({ monthly: 0 }), 2))).toBe(0)
  })
})

describe('windows', () => {
  type Steps = readonly (readonly [at: string, asked: number, admitted: number])[]

  /** Admits at each instant as many as it says, and expects so many of them to get through. */
  async function live(sender: Sender, steps: Steps): Promise<void> {
    for (const [at, asked, admitted] of steps) {
      await world.setClock(at)
      expect({ at, admitted: admittedOf(await admitMany(sender, asked)) }).toEqual({ at, admitted })
    }
  }
  const story = async (plan: Limits, steps: Steps): Promise<void> => live(await world.sender(plan), steps)

  test('the hour rolls: after 59 minutes a charge still counts, after 60 it does not', () =>
    story({ hourly: 3 }, [
      ['2026-03-01T10:05:30Z', 2, 2],
      ['2026-03-01T10:35:00Z', 2, 1],
      ['2026-03-01T11:04:59Z', 1, 0],
      ['2026-03-01T11:05:00Z', 3, 2],
      ['2026-03-01T11:34:59Z', 1, 0],
      ['2026-03-01T11:35:00Z', 2, 1],
    ]))
  test('an idle workspace has its whole hour again, however long it was idle', () =>
    story({ hourly: 3 }, [
      ['2026-03-01T10:05:30Z', 3, 3],
      ['2026-03-01T11:05:00Z', 4, 3],
      ['2026-07-01T11:05:00Z', 4, 3],
    ]))
  test('every minute of an hour has a bucket of its own, also over the turn of the ring', () =>
    story(
      { hourly: 60 },
      Array.from(
        { length: 130 },
        (_, i) => [new Date(Date.UTC(2026, 2, 1, 22, 15 + i, 20)).toISOString(), 1, 1] as const,
      ),
    ))
  test('the day turns at midnight UTC, whatever time zone the server has', () =>
    story({ daily: 2 }, [
      ['2026-03-01T23:59:59.999Z', 3, 2],
      ['2026-03-02T01:59:59+02:00', 1, 0],
      ['2026-03-02T00:00:00Z', 3, 2],
    ]))
  test.each([
    ['of 31 days', '2026-01-31T23:59:59Z', '2026-02-01T00:00:00Z'],
    ['of 28 days', '2026-02-28T23:59:59Z', '2026-03-01T00:00:00Z'],
    ['of 29 days', '2028-02-29T23:59:59Z', '2028-03-01T00:00:00Z'],
    ['that ends a year', '2026-12-31T23:59:59Z', '2027-01-01T00:00:00Z'],
  ])('a month %s ends where it ends', (_, last, first) =>
    story({ monthly: 2 }, [
      [last, 3, 2],
      [first, 3, 2],
    ]),
  )
  test('a leap day belongs to February', () =>
    story({ monthly: 2, daily: 2 }, [
      ['2028-02-28T12:00:00Z', 1, 1],
      ['2028-02-29T12:00:00Z', 2, 1],
    ]))
  test('the same day of another month is another day', () =>
    story({ daily: 1 }, [
      ['2026-03-01T12:00:00Z', 2, 1],
      ['2026-04-01T12:00:00Z', 2, 1],
    ]))

  // A transaction takes its time when it begins, then waits for the quota row; meanwhile another one charges the next minute. Charging the
  // past undid what stood there: at midnight a whole day's count.
  test('a batch that began before the turn of the minute, day and month, and got the row after it, undoes no charge', async () => {
    const sender = await world.sender({ hourly: 4, daily: 3, monthly: 3 })
    await live(sender, [
      ['2026-04-01T00:00:00.001Z', 2, 2],
      ['2026-03-31T23:59:59.999Z', 2, 1],
      ['2026-04-01T00:00:00.002Z', 2, 0],
    ])
    expect(await here.look(world.submission(sender))).toMatchObject({ hour_used: 3, day_used: 3, month_used: 3 })
  })
  test('a clock that is set back by an hour or more does not lock a workspace out until it catches up', () =>
    story({ daily: 1, monthly: 1 }, [
      ['2030-04-01T00:00:00Z', 1, 1],
      ['2026-04-01T00:00:00Z', 2, 1],
    ]))
  test('nor where it is an hour and no more', () =>
    story({ hourly: 3 }, [
      ['2026-04-01T12:00:00Z', 3, 3],
      ['2026-04-01T11:00:00Z', 4, 3],
    ]))

  test('the answer says in how many seconds each window gives room', async () => {
    const sender = await world.sender({ hourly: 9, daily: 9, monthly: 9 })
    await world.setClock('2028-02-28T22:10:20Z')
    const resets = (answer: Admission) => [answer.hour_resets, answer.day_resets, answer.month_resets]
    expect(resets(await here.admit(world.submission(sender)))).toEqual([3580, 6580, 92980])
    await world.setClock('2028-02-28T22:40:00Z')
    expect(resets(await here.admit(world.submission(sender)))).toEqual([1800, 4800, 91200])
    const free = await world.sender({ daily: 9 })
    expect((await here.admit(world.submission(free))).hour_resets).toBeNull()
    // As it is read when nothing is admitted.
    const read = async ({ workspaceId }: Sender) => {
      const row = await readWindows(world.db, workspaceId)
      return [row?.hour_resets, row?.day_resets, row?.month_resets]
    }
    expect(await read(sender)).toEqual([1800, 4800, 91200])
    expect(await read(free)).toEqual([null, 4800, 91200])
  })

  test('where a limit was lowered, the hour gives room when enough has left it, and not with the first that leaves', async () => {
    const sender = await world.sender({ hourly: 10 })
    const send = async (times: number) => {
      for (let n = 0; n < times; n++) await here.admit(world.submission(sender))
    }
    await world.setClock('2028-02-28T22:10:00Z')
    await send(1)
    await world.setClock('2028-02-28T22:20:00Z')
    await send(2)
    await world.setClock('2028-02-28T22:30:00Z')
    await send(2)
    await world.db.run('update plans set hourly = 2 where name = (select plan from workspaces where id = $1)', [
      sender.workspaceId,
    ])
    await world.setClock('2028-02-28T22:40:00Z')
    // Five are counted: at 23:20 there are two left, as many as there may be, at 23:30 none.
    expect(await here.admit(world.submission(sender))).toMatchObject({
      admitted: false,
      hour_used: 5,
      hour_resets: 3000,
    })
    expect(await readWindows(world.db, sender.workspaceId)).toMatchObject({ hour_used: 5, hour_resets: 3000 })
  })
})

describe('idempotency keys', () => {
  const keyed = { endpoint: 'rest', idem: 'order-7', hash: 'abc' }
  const keysOf = (sender: Sender) =>
    world.value<number>('select count(*)::integer from idempotency_keys where workspace_id = $1', [sender.workspaceId])

  test('50 at once from two nodes make one message, and the others are told its id', async () => {
    const sender = await world.sender({ hourly: 100 })
    const rows = Array.from({ length: 50 }, () => world.submission(sender, keyed))
    const answers = await Promise.all(rows.map((row, i) => (i % 2 === 0 ? here : there).admit(row)))
    const winner = rows[answers.findIndex(({ admitted }) => admitted)]
    expect(admittedOf(answers)).toBe(1)
    expect(new Set(answers.filter(({ admitted }) => !admitted).map((answer) => answer.repeated_id))).toEqual(
      new Set([winner?.fields['id']]),
    )
    expect(await recordsOf(sender)).toBe(1)
    expect(await here.look(world.submission(sender))).toMatchObject({ hour_used: 1 })
  })

  test('a key is kept only with its message: one that the quota refused can be used again', async () => {
    const sender = await world.sender({ hourly: 0 })
    expect((await here.admit(world.submission(sender, keyed))).admitted).toBe(false)
    expect(await keysOf(sender)).toBe(0)
    await world.db.run('update plans set hourly = 1 where name = (select plan from workspaces where id = $1)', [
      sender.workspaceId,
    ])
    expect((await here.admit(world.submission(sender, keyed))).admitted).toBe(true)
    expect(await keysOf(sender)).toBe(1)
  })

  test('a repeat answers the first id and hash, also when the quota is used up meanwhile', async () => {
    const sender = await world.sender({ hourly: 1 })
    const first = world.submission(sender, keyed)
    await here.admit(first)
    expect(await here.admit(world.submission(sender, { ...keyed, hash: 'other' }))).toMatchObject({
      admitted: false,
      repeated_id: idOf(first),
      repeated_hash: 'abc',
    })
  })

  test('a key is forgotten only where nothing is left of what it made, and only while it names that', async () => {
    const sender = await world.sender()
    const rows = [world.submission(sender, keyed), world.submission(sender)]
    const [first, second] = rows.map(idOf)
    const repeat = world.submission(sender, keyed)
    const group = [{ ...rows[0], fields: { ...rows[0]?.fields, ids: [first, second] } }, rows[1]] as AdmissionRow[]
    await here.admitGroup(group, Infinity)
    const known = await here.look(repeat)
    expect(known.repeated_ids).toEqual([first, second])
    for (const id of [first, second]) {
      expect(await here.forgetOutlived(repeat, known)).toBe(false)
      expect(await keysOf(sender)).toBe(1)
      await world.db.run('delete from messages where id = $1', [id])
    }
    expect(await here.forgetOutlived(repeat, known)).toBe(true)
    expect(await keysOf(sender)).toBe(0)
    expect((await here.admit(repeat)).admitted).toBe(true)
    // Another node has looked before, and comes behind it.
    expect(await there.forgetOutlived(world.submission(sender, keyed), known)).toBe(true)
    expect(await there.admit(world.submission(sender, keyed))).toMatchObject({
      admitted: false,
      repeated_id: idOf(repeat),
    })
  })

  test('workspaces and faces do not share keys', async () => {
    const [one, two] = [await world.sender(), await world.sender()]
    const rows = [
      world.submission(one, keyed),
      world.submission(two, keyed),
      world.submission(one, { ...keyed, endpoint: 'smtp' }),
    ]
    for (const row of rows) expect(await here.admit(row)).toMatchObject({ admitted: true, repeated_id: null })
  })
})

describe('attachments', () => {
  const file = (blob: string, size: number) => ({
    position: 0,
    filename: 'a.bin',
    content_type: 'application/octet-stream',
    size,
    blob,
  })

  test('a large content is read a few chunks at a time, which come twice as large; and where it goes meanwhile, no part of it is taken for the whole', async () => {
    const id = world.nextId()
    const bytes = randomBytes(9 * limits.contentChunkBytes + 5)
    await stageBlob(world.db, id, bytes)
    let most = 0
    let answers = 0
    const counted = watched(world.db, {
      answered: (_, rows) => {
        most = Math.max(most, rows.length)
        answers++
      },
    })
    expect((await readBlob(counted, id))?.equals(bytes)).toBe(true)
    expect([most, answers]).toEqual([4, 3])
    const gone = watched(world.db, { answered: () => world.db.run('delete from blobs where id = $1', [id]) })
    expect(await readBlob(gone, id)).toBeUndefined()
  })

  test('small ones travel with the admission', async () => {
    const sender = await world.sender()
    const blob = world.nextId()
    const bytes = Buffer.from([0, 255, 10, 13])
    const row = world.submission(sender, {
      files: [file(blob, 4)],
      chunks: [{ blob, bytes: bytes.toString('base64') }],
    })
    expect((await here.admit(row)).admitted).toBe(true)
    expect(await countOf('attachments', idOf(row))).toBe(1)
    expect(await readBlob(world.db, blob)).toEqual(bytes)
  })

  test('staged ones are adopted by the admission, whatever their size', async () => {
    const sender = await world.sender()
    const [blob, body] = [world.nextId(), world.nextId()]
    const bytes = Buffer.alloc(512 * 1024 * 2 + 1, 'x')
    await stageBlob(world.db, blob, bytes)
    await stageBlob(world.db, body, Buffer.alloc(0))
    const row = world.submission(sender, { files: [file(blob, bytes.length)], body: undefined, body_blob: body })
    expect((await here.admit(row)).admitted).toBe(true)
    await forgetStagedFor(2 * 3600)
    await sweepStagedBlobs(world.db)
    expect((await readBlob(world.db, blob))?.equals(bytes)).toBe(true)
    expect(await readBlob(world.db, body)).toHaveLength(0)
  })

  test('while others are pressed, each chunk is followed by a pause, all of them bounded, and nothing is lost', async () => {
    const blob = world.nextId()
    const bytes = Buffer.alloc(limits.contentChunkBytes * 20 + 1, 'y')
    let asked = 0
    const began = performance.now()
    await stageBlob(world.db, blob, bytes, () => ++asked > 0)
    expect(asked).toBe(21)
    expect(performance.now() - began).toBeLessThan(limits.stagePausesMsMax + 10_000)
    expect((await readBlob(world.db, blob))?.equals(bytes)).toBe(true)
    await forgetStagedFor(2 * 3600)
    await sweepStagedBlobs(world.db)
  })

  test('what a refused submission staged is swept after an hour, not before', async () => {
    const sender = await world.sender({ hourly: 0 })
    const blob = world.nextId()
    await stageBlob(world.db, blob, Buffer.from('orphan'))
    const row = world.submission(sender, { files: [file(blob, 6)] })
    expect((await here.admit(row)).admitted).toBe(false)
    expect(await countOf('attachments', idOf(row))).toBe(0)
    await forgetStagedFor(3600 - 60)
    await sweepStagedBlobs(world.db)
    expect(await readBlob(world.db, blob)).toEqual(Buffer.from('orphan'))
    await forgetStagedFor(61)
    expect(await sweepStagedBlobs(world.db)).toBe(1)
    expect(await readBlob(world.db, blob)).toBeUndefined()
    expect(await world.value('select count(*)::integer from staged_blobs')).toBe(0)
  })

  test('what is swept goes a few at a time: each may be as large as a mail, and a statement has its time', async () => {
    const many = 2 * limits.blobsAtOnce + 3
    for (let each = 0; each < many; each++) await stageBlob(world.db, world.nextId(), Buffer.from('orphan'))
    await forgetStagedFor(3600 + 1)
    const bites: number[] = []
    const counted = watched(world.db, { answered: (_, rows) => bites.push(rows.length) })
    expect(await sweepStagedBlobs(counted)).toBe(many)
    expect(bites).toEqual([limits.blobsAtOnce, limits.blobsAtOnce, 3])
  })

  test('an admission that finds swept what it had staged is undone, and those beside it are not', async () => {
    const sender = await world.sender()
    const rowWith = async (form: 'files' | 'text') => {
      const blob = world.nextId()
      await stageBlob(world.db, blob, Buffer.from('here'))
      return world.submission(
        sender,
        form === 'files' ? { files: [file(blob, 4)] } : { body: undefined, body_blob: blob },
      )
    }
    const late = [await rowWith('files'), await rowWith('text')]
    await forgetStagedFor(3600 + 1)
    expect(await sweepStagedBlobs(world.db)).toBe(2)
    const inTime = [await rowWith('files'), await rowWith('text'), world.submission(sender)]
    const answers = await Promise.allSettled([...late, ...inTime].map((row) => here.admit(row)))
    const undone = { status: 'rejected', reason: { name: 'AdmissionTooLate' } }
    const kept = { status: 'fulfilled', value: { admitted: true } }
    expect(answers).toMatchObject([undone, undone, kept, kept, kept])
    expect(await recordsOf(sender)).toBe(3)
    expect(await world.value('select day_count from usage where workspace_id = $1', [sender.workspaceId])).toBe(3)
    expect(await world.value('select count(*)::integer from staged_blobs')).toBe(0)
  })

  /** As if everything staged had been staged that much earlier. */
  const forgetStagedFor = (seconds: number) =>
    world.db.run(`update staged_blobs set staged_at = staged_at - $1 * interval '1 second'`, [seconds])
})
