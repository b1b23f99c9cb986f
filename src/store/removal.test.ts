// A workspace that is removed is gone from every table, whatever happens on the way; and nothing else is.
import { beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makeAdmitter } from './admit.ts'
import type { Db } from './database.ts'
import { keepHouse } from './housekeeping.ts'
import { makeRecorder } from './outbound.ts'
import { beginRemoval, cancelWaiting, carryOnRemoval, readUnfinished, removedFrom } from './removal.ts'
import { makeRefusalBook } from './refused-submissions.ts'
import { makeReportRecorder } from './reports.ts'
import type { StoreWorld } from './store.test-kit.ts'
import { keepUnmatched, pageUnmatched } from './unmatched.ts'
import { watched } from './watched.test-kit.ts'
import { storeWorld } from './store.test-kit.ts'
import { wholeWorkspace, type Whole } from './whole-workspace.test-kit.ts'

let world: StoreWorld
beforeEach(async () => {
  world = await storeWorld()
})

const operator = 'operator:test'
const begin = (space: Whole, db = world.db) => beginRemoval(db, space.workspaceId, operator)
const carryOn = (space: Whole, db = world.db) => carryOnRemoval(db, space.workspaceId, operator)
const retention = { recordsDays: 90, eventsDays: 30, contentDays: 7, auditDays: 400 }

/** Of no workspace, and why. Whoever adds a table says here that nothing of a workspace is in it, or has it removed. */
const ofNobody: Readonly<Record<string, string>> = {
  blobs: 'found by contents and attachments, and removed with them',
  passkey_challenges: 'go with their login',
  passkeys: 'go with their login',
  password_resets: 'go with their login',
  recovery_codes: 'go with their login',
  sessions: 'go with their login',
  delivering_nodes: 'machines',
  delivery_stops: 'of all mail; may name one message by its id until an operator has decided',
  destination_limits: 'what operators set about providers',
  installation: 'facts of the installation; its own workspace is not removed',
  mta_sts_policies: 'what receivers publish',
  plans: 'limits without names of anybody',
  removed_workspaces: 'the ids of those that were removed, for a month',
  sign_in_guesses: 'hashes, for minutes',
  staged_blobs: 'swept within an hour; nobody knows whose they were to be',
  workspaces: 'removed at the end',
}
/** Empty before a removal begins, or by its beginning. */
const emptied = ['outbound']

const tables = () =>
  world.db.run<{ name: string; owned: boolean }>(
    `select c.relname as name, exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'workspace_id') owned
       from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname not like 'kysely%'
      order by 1`,
  )
/** What is in every table, told in one line for each; the audit log apart. */
async function everything(): Promise<Record<string, string>> {
  const told: Record<string, string> = {}
  for (const { name } of await tables())
    if (name !== 'audit_log' && name !== 'removed_workspaces')
      told[name] = await world.value(
        `select count(*) || ' ' || coalesce(md5(string_agg(t::text, e'\\n' order by t::text)), '') from ${name} t`,
      )
  return told
}
/** Rows of the workspace in each table that has any. */
async function rowsOf(space: WorkspaceId): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const { name } of (await tables()).filter(({ owned }) => owned)) {
    const many = await world.value<number>(`select count(*)::integer from ${name} where workspace_id = $1`, [space])
    if (many > 0) found[name] = many
  }
  return found
}
const log = () =>
  world.db.run<{ line: string }>(
    `select concat_ws(' ', workspace_id, actor, action, target, facts) line from audit_log order by at, action, id`,
  )

describe('every table', () => {
  test('is removed from, or said to be of nobody: a new one cannot be forgotten', async () => {
    const all = await tables()
    const known = [...Object.keys(removedFrom), ...Object.keys(ofNobody), ...emptied]
    expect(all.filter(({ name }) => !known.includes(name)).map(({ name }) => name)).toEqual([])
    const owned = all.filter((table) => table.owned).map(({ name }) => name)
    expect(owned.filter((name) => name in ofNobody)).toEqual([])
    // And what hangs on one of these by a foreign key goes before it, or by the key itself.
    const hanging = await world.db.run<{ child: string; parent: string; cascades: boolean }>(
      `select conrelid::regclass::text child, confrelid::regclass::text parent, confdeltype = 'c' cascades from pg_constraint
        where contype = 'f' and conparentid = 0`,
    )
    const order = [...Object.keys(removedFrom), 'workspaces']
    const wrong = hanging.filter(
      ({ child, parent, cascades }) =>
        order.includes(parent) && !cascades && !(order.indexOf(child) < order.indexOf(parent) && order.includes(child)),
    )
    expect(wrong).toEqual([])
  })

  test('has a row in the workspace of these tests', async () => {
    const { workspaceId } = await wholeWorkspace(world, 'shop')
    const owned = (await tables()).filter((table) => table.owned).map(({ name }) => name)
    expect(Object.keys(await rowsOf(workspaceId))).toEqual(owned.filter((name) => !emptied.includes(name)))
  })

  test('is as if the workspace had never been, and another one as it was', async () => {
    await wholeWorkspace(world, 'other')
    await world.db.run(`insert into plans (name) values ('w2')`) // its plan is nobody's own
    const before = await everything()
    await world.db.run(`delete from plans where name = 'w2'`)
    const shop = await wholeWorkspace(world, 'shop')
    expect((await everything())['blobs']).not.toBe(before['blobs'])

    expect(await begin(shop)).toBe(true)
    expect(await carryOn(shop)).toBe(true)
    expect(await everything()).toEqual(before)
  })

  test('the log says that it was made and removed, and by whom, and nothing of its people; of another one all that it said', async () => {
    await wholeWorkspace(world, 'other')
    const before = (await log()).map(({ line }) => line)
    const shop = await wholeWorkspace(world, 'shop')
    await begin(shop)
    await carryOn(shop)
    expect((await log()).map(({ line }) => line)).toEqual([
      ...before,
      `operator:root workspace.created ${shop.workspaceId} {"plan": "unlimited"}`,
      `operator:test workspace.removal_begun ${shop.workspaceId}`,
      `operator:test workspace.removed ${shop.workspaceId}`,
    ])
  })
})

describe('who belongs to something else stays', () => {
  test.each([
    ['a member of another workspace', 'member'],
    ['an operator', 'operator'],
  ])('%s', async (_, kind) => {
    const shop = await wholeWorkspace(world, 'shop')
    const other = await world.sender()
    if (kind === 'operator') await world.db.run('update users set operator = true where id = $1', [shop.alone])
    else
      await world.db.run(`insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`, [
        other.workspaceId,
        shop.alone,
      ])
    await begin(shop)
    await carryOn(shop)
    expect(await world.value('select count(*)::integer from sessions where user_id = $1', [shop.alone])).toBe(1)
    expect(await rowsOf(shop.workspaceId)).toEqual({})
    const lines = (await log()).map(({ line }) => line)
    expect(lines).toContainEqual(expect.stringContaining('session.opened'))
    // Its name goes, also where nobody goes with it.
    expect(lines).toContain(`operator:root workspace.created ${shop.workspaceId} {"plan": "unlimited"}`)
  })

  test('who becomes a member elsewhere at that moment is not taken from there', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const other = await world.sender()
    await begin(shop)
    const session = await world.holding(`insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`, [
      other.workspaceId,
      shop.alone,
    ])
    const removing = carryOn(shop)
    await world.untilSomebodyWaits()
    await session.query('commit')
    expect(await removing).toBe(true)
    expect(await world.value('select count(*)::integer from members where user_id = $1', [shop.alone])).toBe(1)
  })
})

test.each([
  ['has looked at its people', (name: string) => name.startsWith('people-of-workspace'), 'answered'],
  [
    'comes to its members',
    (name: string, [table]: readonly unknown[]) => name === 'erase-rows' && table === 'members',
    'asked',
  ],
] as const)(
  'a member of two workspaces, one of which is removed while the removal of the other %s, goes with the last',
  async (_, isThen, when) => {
    const [shop, bar] = [await wholeWorkspace(world, 'shop'), await wholeWorkspace(world, 'bar')]
    await world.db.run(`insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`, [
      bar.workspaceId,
      shop.alone,
    ])
    for (const each of [shop, bar]) expect(await begin(each)).toBe(true)
    let removed: Promise<boolean> | undefined
    const meanwhile = async (name: string, values: readonly unknown[]) => {
      if (removed === undefined && isThen(name, values)) await (removed = carryOn(bar))
    }
    const beside = watched(world.db, when === 'asked' ? { asked: meanwhile } : { answered: meanwhile })
    expect(await carryOn(shop, beside)).toBe(true)
    expect(await removed).toBe(true)
    expect(await world.value('select count(*)::integer from users where id = $1', [shop.alone])).toBe(0)
  },
)

describe('mail that is not final', () => {
  const admitted = async (space: Whole) =>
    (await makeAdmitter(world.db).admit(world.submission(space))).admitted ? 'admitted' : 'refused'

  test.each([
    ['queued', {}],
    ['being sent', { armed: false }],
    ['armed', { armed: true }],
  ])('keeps its workspace: %s', async (kind, claim) => {
    const shop = await wholeWorkspace(world, 'shop')
    if (kind === 'queued') expect(await admitted(shop)).toBe('admitted')
    else await world.claimed(shop, [claim])
    const before = await everything()
    expect(await begin(shop)).toBe(false)
    expect(await everything()).toEqual(before)
    expect(await readUnfinished(world.db, shop.workspaceId)).toEqual({
      waiting: kind === 'queued' ? 1 : 0,
      sending: kind === 'being sent' ? 1 : 0,
      armed: kind === 'armed' ? 1 : 0,
    })
  })

  test('what is admitted at the same moment is waited for, and then keeps it', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const { fields } = world.submission(shop)
    const session = await world.holding('select * from admit_2($1::text::json, $2::uuid[], true, false)', [
      JSON.stringify([{ n: 0, g: 0, size: 1, ...fields }]),
      [shop.workspaceId],
    ])
    const beginning = begin(shop)
    await world.untilSomebodyWaits()
    await session.query('commit')
    expect(await beginning).toBe(false)
    expect((await readUnfinished(world.db, shop.workspaceId)).waiting).toBe(1)
  })

  test('nothing is admitted any more from the beginning on, whatever a node remembers; others in the same batch are', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const other = await world.sender()
    await begin(shop)
    const admitter = makeAdmitter(world.anotherNode())
    // The first keeps the statement busy, so that the next two go together.
    const [, refused, welcome] = await Promise.allSettled([
      admitter.admit(world.submission(other)),
      admitter.admit(world.submission(shop)),
      admitter.admit(world.submission(other)),
    ])
    expect(refused).toMatchObject({ status: 'fulfilled', value: { admitted: false, sender: null } })
    expect(welcome).toMatchObject({ status: 'fulfilled', value: { admitted: true } })
    expect(
      await world.value('select count(*)::integer from outbound where workspace_id = $1', [shop.workspaceId]),
    ).toBe(0)
  })

  test('is cancelled on demand, once it is blocked, with its events; what a worker has is left alone', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const admitter = makeAdmitter(world.db)
    const submission = world.submission(shop)
    await admitter.admit(submission)
    const [armed] = await world.claimed(shop, [{ armed: true }])
    expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(0)
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
    expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(1)
    expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(0)
    const id = submission.fields['id'] as never
    expect(await world.history(id)).toEqual(['1 message.queued queued 0', '2 message.failed failed 0'])
    expect(await world.value('select error_message from messages where id = $1', [id])).toMatch(/blocked/)
    expect(await readUnfinished(world.db, shop.workspaceId)).toEqual({ waiting: 0, sending: 0, armed: 1 })
    expect(await begin(shop)).toBe(false)
    expect(await world.history(armed?.id as never)).toHaveLength(2)
  })

  test('is cancelled past a record that somebody holds, and that one when it is free', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const submissions = [world.submission(shop), world.submission(shop)] as const
    for (const each of submissions) await makeAdmitter(world.db).admit(each)
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
    const holder = await world.holding('select from messages where id = $1 for update', [submissions[0].fields['id']])
    expect([await cancelWaiting(world.db, shop.workspaceId), await cancelWaiting(world.db, shop.workspaceId)]).toEqual([
      1, 0,
    ])
    expect(await readUnfinished(world.db, shop.workspaceId)).toMatchObject({ waiting: 1 })
    await holder.query('rollback')
    expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(1)
  })

  test.each(['timeline', 'system_identifier'])(
    'where another server has taken over, and no node has compared itself with it yet, it is not cancelled: it may have been sent (%s)',
    async (name) => {
      const shop = await wholeWorkspace(world, 'shop')
      const submission = world.submission(shop)
      await makeAdmitter(world.db).admit(submission)
      await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
      const before = await world.db.run<{ value: string }>('select value from installation where name = $1', [name])
      await world.db.run(
        `insert into installation (name, value) values ($1, '00000000') on conflict (name) do update set value = excluded.value`,
        [name],
      )
      expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(0)
      expect(await world.history(submission.fields['id'] as never)).toEqual(['1 message.queued queued 0'])
      await world.db.run('delete from installation where name = $1', [name])
      for (const { value } of before)
        await world.db.run('insert into installation (name, value) values ($1, $2)', [name, value])
      expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(1)
    },
  )

  test.each([
    ['fence', 0],
    ['pause', 0],
    ['drain', 1],
  ])('where a restored database may not know that it was sent, it is not cancelled: %s', async (kind, many) => {
    const shop = await wholeWorkspace(world, 'shop')
    await makeAdmitter(world.db).admit(world.submission(shop))
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
    await world.db.run(`insert into delivery_stops (kind, reason) values ($1, 'test')`, [kind])
    expect(await cancelWaiting(world.db, shop.workspaceId)).toBe(many)
  })
})

/** A process that dies behind so many statements. */
function dyingAfter(statements: number): Db {
  let left = statements
  const over = (db: Db): Db => ({
    ...db,
    rows: async (statement, values) => {
      if (left-- === 0) throw new Error('killed')
      return db.rows(statement, values)
    },
    transaction: (work) => db.transaction((tx) => work(over(tx))),
  })
  return over(world.db)
}

describe('feedback without effect', () => {
  const keep = async (facts: object) => {
    const row = { reason: 'not_armed', source: 'mail', sender: '', addressee: '', content: Buffer.from('x') } as const
    await keepUnmatched(world.db, { ...row, facts })
  }
  const left = async () =>
    (await pageUnmatched(world.db, undefined, 100))
      .map(({ facts }) => (facts as { name?: string }).name ?? '')
      .toSorted()

  // One event of a relay's feed, with such a character in its words, kept every workspace from being removed for a month.
  test.each([
    ['U+0000', 'a\0b', 'a\ufffdb'],
    ['half a surrogate pair', 'cut in two: \ud83d', 'cut in two: \ufffd'],
  ])('is kept so that it can be read, and goes, also with %s in its words', async (_, text, readable) => {
    const shop = await wholeWorkspace(world, 'shop')
    await keep({ workspaceId: shop.workspaceId, name: 'of the shop', reply: { text } })
    // As an older release has kept it.
    const older = JSON.stringify({ workspaceId: shop.workspaceId, name: 'older', reply: { text } })
    await world.db.run(
      `insert into unmatched_feedback (id, reason, source, sender, addressee, facts, size_bytes, content) values ($1, 'not_armed', 'x', '', '', $2, 0, '')`,
      [world.nextId(), older],
    )
    const words = JSON.stringify({ text: `{"workspaceId":"${shop.workspaceId}"}`, nul: '\0' })
    await keep({ messageId: world.nextId(), name: 'of nobody', words })
    expect(
      await world.value(
        `select facts #>> '{reply,text}' from unmatched_feedback where facts::text like '%of the shop%'`,
      ),
    ).toBe(readable)
    await begin(shop)
    expect(await carryOn(shop)).toBe(true)
    expect(await left()).toEqual(['of nobody'])
  })

  test('about a message that is not there any more goes with its own workspace, and with no other', async () => {
    const [shop, other] = [await wholeWorkspace(world, 'shop'), await world.sender()]
    const ofShop = { workspaceId: shop.workspaceId, name: 'of the shop' }
    await keep({ ...ofShop, messageId: world.nextId() })
    await keep({ messageId: world.nextId(), workspaceId: other.workspaceId, name: 'of another' })
    await keep({ messageId: world.nextId(), name: 'of nobody, by now' })
    await keep({ name: 'about no message' })
    await begin(shop)
    await carryOn(shop)
    const others = ['about no message', 'of another', 'of nobody, by now']
    expect(await left()).toEqual(others)
    // A report that was being read meanwhile.
    await keep({ ...ofShop, messageId: shop.messages[0] })
    await keepHouse(world.db, retention)
    expect(await left()).toEqual(others)
  })
})

describe('a removal that cannot end', () => {
  test('holds up no other one; it is told, and ends when it can', async () => {
    // What a newer release has made, and this one does not know.
    await world.db.run(
      'create table of_tomorrow (workspace_id uuid not null references workspaces, n integer, primary key (workspace_id, n))',
    )
    const all = [await wholeWorkspace(world, 'one'), await wholeWorkspace(world, 'two'), await wholeWorkspace(world, 'three')] // prettier-ignore
    const spaces = all.map(({ workspaceId }) => workspaceId).toSorted()
    for (const space of spaces.slice(0, 2)) await world.db.run('insert into of_tomorrow values ($1, 1)', [space])
    for (const each of all) await begin(each)
    const are = () => world.db.run<{ id: string }>('select id from workspaces where id = any ($1::uuid[]) order by id', [spaces]) // prettier-ignore
    const round = keepHouse(world.db, retention)
    await expect(round).rejects.toThrow(
      new RegExp(`${spaces[0]}: .*of_tomorrow has rows of it yet.*${spaces[1]}: .*of_tomorrow has rows of it yet`),
    )
    expect((await are()).map(({ id }) => id)).toEqual(spaces.slice(0, 2))
    await world.db.run('delete from of_tomorrow where workspace_id = $1', [spaces[0]])
    await expect(keepHouse(world.db, retention)).rejects.toThrow(`removal of workspace ${spaces[1]}`)
    expect((await are()).map(({ id }) => id)).toEqual(spaces.slice(1, 2))
    await world.db.run('delete from of_tomorrow')
    await keepHouse(world.db, retention)
    expect(await are()).toEqual([])
  })
})

// Behind a snapshot it goes along all that the removal has deleted.
test('a look for what is left, however long it takes, locks nothing', async () => {
  await world.db.run('create table of_tomorrow (workspace_id uuid primary key references workspaces)')
  const shop = await wholeWorkspace(world, 'shop')
  await begin(shop)
  const holder = await world.holding('lock table of_tomorrow in access exclusive mode')
  const end = carryOn(shop)
  await world.untilSomebodyWaits()
  const lock = 'select id from workspaces where id = $1 for update nowait'
  expect(await world.db.run(lock, [shop.workspaceId])).toHaveLength(1)
  await holder.query('rollback')
  expect(await end).toBe(true)
})

describe('a removal that is killed', () => {
  test('before its first commit has changed nothing', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const before = await everything()
    for (const statements of [0, 1]) await expect(begin(shop, dyingAfter(statements))).rejects.toThrow('killed')
    expect(await everything()).toEqual(before)
    expect(await begin(shop)).toBe(true)
  })

  test('behind any statement is carried on by the same command, to the same end', async () => {
    const before = await everything()
    const shop = await wholeWorkspace(world, 'shop')
    await begin(shop)
    let killed = 0
    for (;;) {
      const ended = await carryOn(shop, dyingAfter(killed)).catch((error: Error) => error)
      if (ended === true) break
      expect(ended).toMatchObject({ message: 'killed' })
      expect(await world.value('select count(*)::integer from workspaces where id = $1', [shop.workspaceId])).toBe(1)
      killed += 1
    }
    expect(killed).toBeGreaterThan(30)
    expect(await everything()).toEqual({ ...before, plans: expect.anything() as string })
    expect((await log()).filter(({ line }) => line.includes('workspace.removed'))).toHaveLength(1)
  })

  test('is carried on by housekeeping, and another node at the same time does no harm', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    await begin(shop)
    await expect(carryOn(shop, dyingAfter(20))).rejects.toThrow('killed')
    await Promise.all([keepHouse(world.db, retention), keepHouse(world.anotherNode(), retention)])
    expect(await rowsOf(shop.workspaceId)).toEqual({})
    expect(await world.value('select count(*)::integer from workspaces where id = $1', [shop.workspaceId])).toBe(0)
    expect((await log()).at(-1)?.line).toBe(`posthorn workspace.removed ${shop.workspaceId}`)
  })

  test('a release before takes it for blocked, and cannot unblock it', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    await begin(shop)
    expect(await world.value('select status from workspaces where id = $1', [shop.workspaceId])).toBe('blocked')
    const asBefore = `update workspaces set plan = coalesce(null, plan), status = 'active' where id = $1`
    await expect(world.db.run(asBefore, [shop.workspaceId])).rejects.toThrow('blocked_while_removing')
  })
})

describe('what comes behind it', () => {
  test('a reply of a journal, a report and a log of a webhook make no error, and what they leave is swept', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const [armed] = await world.claimed(shop, [{ armed: true }])
    if (armed === undefined) throw new Error('no claim')
    // The worker was lost, and a reaper decided: unknown is final, and its journal still has the reply.
    await world.db.run('delete from outbound where message_id = $1', [armed.id])
    await world.db.run(
      `update messages set status = 'delivery_unknown', finished_at = app_now(), armed_epoch = $2, armed_token = $3 where id = $1`,
      [armed.id, armed.epoch, armed.token],
    )
    await begin(shop)
    await carryOn(shop)

    const { workspaceId } = shop
    const sent = await makeRecorder(world.db, world.db, await world.node()).finish({
      ...armed,
      workspaceId,
      status: 'sent',
      providerMessageId: 'R-1',
      relay: workspaceId,
      usesTry: true,
      outcome: 'accepted',
      attempt: { phase: 'eod', smtp: { code: 250 } },
      event: {},
    })
    expect(sent).toBe(false)
    const report = await makeReportRecorder(world.db)({
      id: armed.id,
      workspaceId,
      fingerprint: '00',
      type: 'hard_bounce',
      rank: 3,
      detail: 'no such user',
      facts: {},
      source: 'dsn',
      suppress: 'hard_bounce',
    })
    expect(report).toBe('not_armed')
    await world.db.run(
      `select * from end_webhooks_3(json_build_array(json_build_object('w', $1::uuid, 'm', $2::uuid, 's', 1, 'round', 1, 'attempt', 2, 'asked', true, 'delivered', true)), 1000)`,
      [workspaceId, armed.id],
    )
    expect(await rowsOf(workspaceId)).toEqual({ relayed: 1, webhook_attempts: 1 })

    await keepHouse(world.db, retention)
    // An id that a relay gave goes by its age: it names nobody.
    expect(await rowsOf(workspaceId)).toEqual({ relayed: 1 })
    expect(await world.value('select count(*)::integer from removed_workspaces')).toBe(1)
    await world.setClock(new Date(Date.now() + 31 * 86_400_000).toISOString())
    await world.db.run(`delete from installation where name = 'housekeeping_clock'`)
    await keepHouse(world.db, retention)
    expect(await world.value('select count(*)::integer from removed_workspaces')).toBe(0)
  })

  test('a refusal of a session that outlives it is not kept, and those of others are', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const other = await world.sender()
    await begin(shop)
    await carryOn(shop)
    const faults: unknown[] = []
    const book = makeRefusalBook(world.db, { ...silentLog, fault: (...told) => void faults.push(told) })
    for (const { workspaceId } of [shop, other]) book.note({ workspaceId, source: 'smtp', code: 'mailbox_not_active' })
    await book.quiet()
    expect(faults).toEqual([])
    expect(await rowsOf(shop.workspaceId)).toEqual({})
    expect((await rowsOf(other.workspaceId))['refused_submissions']).toBe(1)
  })

  test('its name is free again, and the new one has nothing of it', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    await begin(shop)
    await carryOn(shop)
    const again = await wholeWorkspace(world, 'shop')
    await keepHouse(world.db, retention)
    expect((await rowsOf(again.workspaceId))['suppressions']).toBe(1_100)
  })
})

describe('a large one goes in bites', () => {
  test('of no more rows and blobs than their limits, to the last', async () => {
    const before = await everything()
    const shop = await wholeWorkspace(world, 'shop')
    // In several partitions, and in one of them more than two bites, whatever day it is.
    await world.db.run(
      `insert into contents (workspace_id, message_id, body_blob) select $1, id, id from (
         select uuid_floor(app_now() - n * interval '2 hours') id from generate_series(1, 50) n
         union all
         select uuid_floor(date_trunc('week', app_now()) + n * interval '1 second') from generate_series(1, 50) n) x`,
      [shop.workspaceId],
    )
    await world.db.run(
      `insert into blobs (id, part, bytes) select distinct c.body_blob, 2, 'z'::bytea from contents c where c.body_blob is not null`,
    )
    await world.db.run(
      `insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id, created_at)
       select $1, case when n % 3 = 0 then 'send' else 'rest' end, n::text, 'h', $2, app_now() from generate_series(1, 2500) n`,
      [shop.workspaceId, shop.messages[0]],
    )
    await begin(shop)
    const bites: number[] = []
    await carryOnRemoval(world.db, shop.workspaceId, operator, { told: (rows) => bites.push(rows) })
    expect(Math.max(...bites)).toBe(limits.removalRows)
    expect(bites.filter((rows) => rows === limits.blobsAtOnce).length).toBeGreaterThanOrEqual(2)
    expect(await everything()).toEqual({ ...before, plans: expect.anything() as string })
  })

  test('each of which goes on behind the last: what is gone and not cleaned up yet is not looked at again', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const bite = async (leaf: unknown, last: unknown) =>
      (
        await world.db.run<{ many: number; leaf: string; last: string[] }>(
          `select * from erase_rows_1('suppressions', '{recipient_key}', $1, 500, $2, $3)`,
          [shop.workspaceId, leaf, last],
        )
      )[0]
    const first = await bite(null, null)
    expect(first).toMatchObject({ many: 500, leaf: 'suppressions' })
    const [key] = first?.last ?? []
    expect(
      await world.value('select min(recipient_key) > $1 from suppressions where workspace_id = $2', [
        key,
        shop.workspaceId,
      ]),
    ).toBe(true)
    await world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, '0', '0', 'manual')`,
      [shop.workspaceId],
    )
    expect(await bite(first?.leaf, first?.last)).toMatchObject({ many: 500 })
    expect(await world.value(`select count(*)::integer from suppressions where recipient_key = '0'`)).toBe(1)
  })

  test('so do the tokens of its feeds', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    await world.db.run(
      `insert into feed_seen (feed_id, token_hash, body_hash) select f.id, sha256(n::text::bytea), 'y' from feeds f, generate_series(1, $2) n where f.workspace_id = $1`,
      [shop.workspaceId, 2 * limits.removalRows],
    )
    await begin(shop)
    const from: string[] = []
    const asked = (name: string, [, after]: readonly unknown[]) =>
      name === 'erase-feed-tokens' && from.push((after as Buffer).toString('hex'))
    expect(await carryOn(shop, watched(world.db, { asked }))).toBe(true)
    expect(from.slice(0, 4)).toEqual([...new Set(from.slice(0, 4))].toSorted())
    expect(await world.value('select count(*)::integer from feed_seen')).toBe(0)
  })

  test('and while one is open, mail of others is accepted, claimed and ended, and so is housekeeping', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    const other = await world.sender()
    await begin(shop)
    const session = await world.session()
    await session.query('begin')
    for (const table of ['events', 'messages', 'suppressions'])
      await session.query(`select * from erase_rows_1($1, '{}', $2, 1000, null, null)`, [table, shop.workspaceId])
    await session.query(`select * from erase_contents_1('contents', 'body_blob', $1, 1000, 20, null, null)`, [
      shop.workspaceId,
    ])
    const impatient = world.anotherNode()
    await impatient.transaction(async (tx) => {
      await tx.run(`set local lock_timeout = '2s'`)
      await makeAdmitter(tx).admit(world.submission(other))
    })
    const [claim] = await world.claimed(other, [{ armed: true }])
    const done = await makeRecorder(impatient, impatient, await world.node()).finish({
      ...claim,
      workspaceId: other.workspaceId,
      status: 'sent',
      usesTry: true,
      outcome: 'accepted',
      attempt: { phase: 'eod' },
      event: {},
    } as never)
    expect(done).toBe(true)
    await keepHouse(impatient, retention, () => Promise.reject(new Error('nothing was in use'))).catch((error: Error) =>
      expect(error.message).toMatch(/has rows of it yet/),
    )
    await session.query('rollback')
    await keepHouse(impatient, retention)
    expect(await rowsOf(shop.workspaceId)).toEqual({})
  })

  test('and a partition that retention has taken off is not forgotten', async () => {
    const shop = await wholeWorkspace(world, 'shop')
    await world.db.run('create table expired_events_20200101 (like events including all)')
    await world.db.run(
      `insert into expired_events_20200101 (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at) values ($1, $2, 1, 'x', 'x', 0, app_now())`,
      [shop.workspaceId, shop.messages[0]],
    )
    await begin(shop)
    await carryOn(shop)
    expect(await world.value('select count(*)::integer from expired_events_20200101')).toBe(0)
  })
})

test('somebody who holds rows of it holds up the end, and neither is waited for by others nor loses theirs', async () => {
  const shop = await wholeWorkspace(world, 'shop')
  await begin(shop)
  const session = await world.holding('update hourly_counts set many = many + 1 where workspace_id = $1', [
    shop.workspaceId,
  ])
  await expect(carryOn(shop)).rejects.toThrow('hourly_counts has rows of it yet')
  expect((await log()).filter(({ line }) => line.includes('workspace.removed '))).toEqual([])
  await session.query('commit')
  expect(await carryOn(shop)).toBe(true)
})
