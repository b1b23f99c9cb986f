import { beforeEach, describe, expect, test } from 'vitest'
import type { MessageId } from '../domain/message.ts'
import { limits } from '../config.ts'
import { makeAdmitter } from './admit.ts'
import { writeAudit } from './audit.ts'
import type { Db } from './database.ts'
import { keepHouse } from './housekeeping.ts'
import { migrate } from './migrate.ts'
import { addGuess, countGuesses } from './sign-in-guesses.ts'
import { storeWorld, type Sender, type StoreWorld } from './store.test-kit.ts'
import { readStatus } from './views/message-status.ts'
import { watched } from './watched.test-kit.ts'

let world: StoreWorld
let sender: Sender
beforeEach(async () => {
  world = await storeWorld()
  sender = await world.sender()
})

const retention = { recordsDays: 90, eventsDays: 30, contentDays: 7, auditDays: 400 }
const noPause = () => Promise.reject(new Error('nothing was in use'))
const keep = () => keepHouse(world.db, retention, noPause)
const day = 86_400_000
/** Database time, so many days from now. */
const leapDays = (days: number): Promise<void> => world.setClock(new Date(Date.now() + days * day).toISOString())
/** And housekeeping was done all the while. */
const inDays = async (days: number): Promise<void> => {
  await leapDays(days)
  await world.db.run(`delete from installation where name = 'housekeeping_clock'`)
}

/** An id as a clock makes it that stands there. */
const idAt = (ms: number) => {
  const time = Math.floor(ms).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}${world.nextId().slice(13)}` as MessageId
}

/** Where the next partition of records begins. */
const endOfPartition = async (): Promise<number> =>
  (
    await world.value<Date>(`select min(ends) from dated_partitions() where parent = 'messages' and ends > app_now()`)
  ).getTime()
const at = (ms: number) => inDays((ms - Date.now()) / day)

/** A message of this moment that has come to its end. */
async function finished(): Promise<MessageId> {
  const [claim] = await world.claimed(sender, [{}])
  if (claim === undefined) throw new Error('no claim')
  await world.db.run('delete from outbound where message_id = $1', [claim.id])
  await world.db.run(`update messages set status = 'sent', finished_at = app_now() where id = $1`, [claim.id])
  return claim.id
}
const anEndpoint = ({ workspaceId }: Sender) =>
  world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed) values ($1, 'https://there.example/', '2026-11-01', '')`,
    [workspaceId],
  )
const rowsOf = (id: MessageId) =>
  world.value<string>(
    `select concat_ws(' ', (select count(*) from messages where id = $1), (select count(*) from contents where message_id = $1),
                      (select count(*) from events where message_id = $1))`,
    [id],
  )
const body = async (id: MessageId) => {
  const { message } = (await readStatus(world.db, sender.workspaceId, id)) ?? {}
  return [message?.bodyText, message?.contentExpiredAt?.toISOString()]
}

describe('what is kept, and for how long (decisions K)', () => {
  test('content can be read for seven days after the end, then it says since when not; the record stays', async () => {
    const id = await finished()
    const end = await world.value<Date>('select finished_at from messages where id = $1', [id])
    await keep()
    await inDays(6.99)
    expect(await body(id)).toEqual(['Good morning', undefined])
    await inDays(7.01)
    expect(await body(id)).toEqual(['', new Date(end.getTime() + 7 * day).toISOString()])
  })

  test('and so it can where the end came a day after all of its partition had been accepted', async () => {
    await keep()
    const ends = `select min(ends) from dated_partitions() where parent = 'contents' and ends > app_now()`
    const accepted = (await world.value<Date>(ends)).getTime() - 60_000
    const id = idAt(accepted)
    await makeAdmitter(world.db).admit(world.submission(sender, { id }))
    await world.db.run('delete from outbound')
    const end = accepted + limits.messageAgeMsMax
    await world.setClock(new Date(end).toISOString())
    await world.db.run(`update messages set status = 'sending' where id = $1`, [id])
    await world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [id])
    await at(end + 6.99 * day)
    await keep()
    expect(await body(id)).toEqual(['Good morning', undefined])
  })

  test('it is gone from the disk at most four days later, events after a month, the record after three', async () => {
    const id = await finished()
    for (const text of [
      `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, app_now(), 'accepted', '{}')`,
      `insert into scans (workspace_id, message_id, record) values ($1, $2, '{}')`,
      `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered) values ($1, $2, 1, 1, 1, app_now(), true)`,
    ])
      await world.db.run(text, [sender.workspaceId, id])
    const beside = () =>
      world.value<string>(
        `select concat_ws(' ', (select count(*) from attempts), (select count(*) from scans), (select count(*) from webhook_attempts))`,
      )
    await inDays(6)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['1 1 2', '1 1 1'])
    await inDays(7 + 2 + 2)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['1 0 2', '1 1 1'])
    expect(await body(id)).toEqual(['', expect.any(String)])
    await inDays(29)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['1 0 2', '1 1 1'])
    await inDays(30 + 7)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['1 0 0', '1 1 0'])
    await inDays(89)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['1 0 0', '1 1 0'])
    await inDays(90 + 28)
    await keep()
    expect([await rowsOf(id), await beside()]).toEqual(['0 0 0', '0 0 0'])
  })

  test('a message that is still to be sent keeps everything, however old it is', async () => {
    const [claim] = await world.claimed(sender, [{}])
    await inDays(400)
    await keep()
    expect(await rowsOf(claim?.id as MessageId)).toBe('1 1 2')
  })

  // Of a mail that was taken in for hours, it was there before the id.
  test('also what is large of it, in the partition before its own', async () => {
    const ends = `select min(ends) from dated_partitions() where parent = 'blobs' and ends > app_now()`
    const next = (await world.value<Date>(ends)).getTime()
    await makeAdmitter(world.db).admit(world.submission(sender, { id: idAt(next + 3_600_000) }))
    await world.db.run(`insert into blobs (id, part, bytes) values ($1, 0, 'a')`, [idAt(next - 3_600_000)])
    await inDays(400)
    await keep()
    expect(await world.value('select count(*)::integer from blobs')).toBe(1)
  })

  test('what an active endpoint has still to be told is kept, however old: a service that was off for months tells it at last', async () => {
    await anEndpoint(sender)
    const id = await finished()
    // The body of its event is made of it.
    await world.db.run(
      `insert into reports (workspace_id, message_id, sequence, type, source, created_at) values ($1, $2, 2, 'delivered', 'smtp', app_now())`,
      [sender.workspaceId, id],
    )
    const reports = () => world.value('select count(*)::integer from reports where message_id = $1', [id])
    await inDays(200)
    await keep()
    expect([await rowsOf(id), await reports()]).toEqual(['1 0 2', 1])
    await world.db.run(`update webhook_endpoints set state = 'disabled', reason = 'by_hand'`)
    await keep()
    expect([await rowsOf(id), await reports()]).toEqual(['0 0 0', 0])
  })

  test('a workspace that keeps no content has none after the end, at once for readers, soon on the disk', async () => {
    const other = await world.sender()
    await world.db.run('update workspaces set keeps_content = false where id = $1', [sender.workspaceId])
    const id = await finished()
    const [waiting] = await world.claimed(sender, [{}])
    const [elsewhere] = await world.claimed(other, [{}])
    expect(await body(id)).toEqual(['', expect.any(String)])
    await keep()
    expect(await rowsOf(id)).toBe('1 0 2')
    expect(await rowsOf(waiting?.id as MessageId)).toBe('1 1 2')
    expect(await rowsOf(elsewhere?.id as MessageId)).toBe('1 1 2')
  })

  test.each([
    ['its attachments and long texts go with it', false, ['0', '0']],
    ['but those that others of the same mail over SMTP have yet to send', true, ['3', '0']],
  ])('%s', async (_, shares, left) => {
    await world.db.run('update workspaces set keeps_content = false where id = $1', [sender.workspaceId])
    const id = await finished()
    const [text, file] = [world.nextId(), world.nextId()]
    await world.db.run(`insert into blobs (id, part, bytes) values ($1, 0, 'a'), ($1, 1, 'b'), ($2, 0, 'c')`, [
      text,
      file,
    ])
    const apart = 'update contents set body_text = null, body_blob = $2, shares_blobs = $3 where message_id = $1'
    await world.db.run(apart, [id, text, shares])
    await world.db.run(
      `insert into attachments (workspace_id, message_id, position, filename, content_type, size_bytes, blob_id)
       values ($1, $2, 0, 'a.txt', 'text/plain', 1, $3)`,
      [sender.workspaceId, id, file],
    )
    await keep()
    expect(
      await Promise.all(['blobs', 'attachments'].map((table) => world.value(`select count(*) from ${table}`))),
    ).toEqual(left)
  })

  test('what lies apart from its message goes a few at a time, each may be as large as a mail; and all of it, whatever waits beside it', async () => {
    await world.db.run('update workspaces set keeps_content = false where id = $1', [sender.workspaceId])
    const [waiting] = await world.claimed(sender, [{}])
    const many = 2 * limits.blobsAtOnce + 3
    await world.db.run(
      `with made as (
         insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
         select $1, uuid_floor(app_now() - n * interval '1 second'), $2, 'rest', 'sent', 3, 'a', 'b', 'b', 's', 'n', app_now(), app_now() from generate_series(1, $3) n
         returning id),
       content as (insert into contents (workspace_id, message_id, body_blob) select $1, id, id from made)
       insert into blobs (id, part, bytes) select id, 0, 'x' from made`,
      [sender.workspaceId, sender.mailboxId, many],
    )
    const left = () => world.value<number>('select count(*)::integer from blobs')
    const bites: number[] = []
    let before = await left()
    const answered = async (name: string) => {
      if (name !== 'drop-unwanted-contents') return
      bites.push(before - (before = await left()))
    }
    await keepHouse(watched(world.db, { answered }), retention, noPause)
    expect(bites.filter((bite) => bite > 0)).toEqual([limits.blobsAtOnce, limits.blobsAtOnce, 3])
    expect(await world.value('select count(*)::integer from contents')).toBe(1)
    expect(await body(waiting?.id as MessageId)).toEqual(['Good morning', undefined])
  })

  test('content of one workspace that cannot go keeps nobody else’s', async () => {
    const other = await world.sender()
    await world.db.run('update workspaces set keeps_content = false')
    const claims = [...(await world.claimed(sender, [{}])), ...(await world.claimed(other, [{}]))]
    await world.db.run('delete from outbound')
    await world.db.run(`update messages set status = 'sent', finished_at = app_now()`)
    await world.db.run(
      `create function hold_content() returns trigger language plpgsql as $$ begin raise exception 'this stays'; end $$`,
    )
    await world.db.run(
      `create trigger hold_content before delete on contents for each row when (old.workspace_id = '${sender.workspaceId}') execute function hold_content()`,
    )
    await expect(keep()).rejects.toThrow('this stays')
    expect(await Promise.all(claims.map(({ id }) => rowsOf(id)))).toEqual(['1 1 2', '1 0 2'])
  })

  test('who did what is known for as long as it is asked for, however much there is, and what is newer stays', async () => {
    const many = 2 * limits.housekeepingRows + 7
    await writeAudit(world.db, { actor: 'cli', action: 'thing.made', workspaceId: sender.workspaceId })
    await world.db.run(
      `insert into audit_log (id, at, actor, action)
       select (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, now(), 'cli', 'thing.changed' from generate_series(1, ${many}) i`,
    )
    await inDays(399)
    await writeAudit(world.db, { actor: 'cli', action: 'thing.removed', workspaceId: sender.workspaceId })
    const kept = () => world.value<string>(`select concat_ws(' ', count(*), max(action)) from audit_log`)
    await keep()
    expect(await kept()).toBe(`${many + 2} thing.removed`)
    await inDays(401)
    await keep()
    // The clock of a process may be behind; the row says when it was.
    expect(await kept()).toBe('1 thing.removed')
  })

  test('what was sent again is known as long as the record of either', async () => {
    const [first, again] = [await finished(), await finished()]
    await world.db.run(
      'insert into sent_again (workspace_id, message_id, again_id, at) values ($1, $2, $3, app_now())',
      [sender.workspaceId, first, again],
    )
    await inDays(90)
    await keep()
    expect(await world.value('select count(*) from sent_again')).toBe('1')
    await inDays(90 + 28)
    await keep()
    expect(await world.value('select count(*) from sent_again')).toBe('0')
  })

  test('idempotency keys live as long as the record: it lies where the time of its id is, whenever the key was written', async () => {
    const edge = await endOfPartition()
    const accepted = async (idem: string, idMs: number, ms: number) => {
      await at(ms)
      const row = world.submission(sender, { id: idAt(idMs), endpoint: 'send', idem, hash: 'h' })
      expect(await makeAdmitter(world.db).admit(row)).toMatchObject({ admitted: true })
    }
    await at(edge - 60_000)
    await keep()
    await accepted('a clock that is ahead', edge + 5_000, edge - 5_000)
    await accepted('a slow submission', edge - 5_000, edge + 5_000)
    await world.db.run('delete from outbound')
    const left = () =>
      world.value<string>(
        `select concat_ws(', ', (select count(*) from messages), (select string_agg(key, ', ' order by key) from idempotency_keys))`,
      )
    await at(edge + 89 * day)
    await keep()
    expect(await left()).toBe('2, a clock that is ahead, a slow submission')
    await at(edge + 90 * day + 60_000)
    await keep()
    expect(await left()).toBe('1, a clock that is ahead')
    await at(edge + (90 + 28) * day + 60_000)
    await keep()
    expect(await left()).toBe('0')
  })

  test('a key of several messages lives as long as the last of their records, and one without a partition counts', async () => {
    const edge = await endOfPartition()
    await at(edge - 60_000)
    await keep()
    const [first, second, astray] = [idAt(edge - 1), idAt(edge + 1), idAt(edge - 60 * day)]
    const keyed = (idem: string) => ({ endpoint: 'smtp', idem, hash: 'h' })
    const admitter = makeAdmitter(world.db)
    await admitter.admitGroup(
      [
        world.submission(sender, { id: first, ids: [first, second], ...keyed('both') }),
        world.submission(sender, { id: second }),
      ],
      Infinity,
    )
    await at(edge + 30 * day)
    await admitter.admit(world.submission(sender, { id: astray, ...keyed('astray') }))
    await world.db.run('delete from outbound')
    const left = () => world.value<string>(`select string_agg(key, ' ' order by key) from idempotency_keys`)
    await at(edge + 90 * day + 60_000)
    await keep()
    expect([await rowsOf(first), await rowsOf(second), await rowsOf(astray)]).toEqual(['0 0 0', '1 0 0', '1 0 0'])
    expect(await left()).toBe('astray both')
  })

  test('keys are looked through when records have gone, a few pages at a time, and not in every round', async () => {
    const many = 5 * limits.housekeepingRows
    const insert = (what: string) =>
      world.db.run(
        `insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id, created_at)
         select $1, 'send', $2 || i, repeat('h', 64), (left(uuid_floor(app_now())::text, 13) || substr(gen_random_uuid()::text, 14))::uuid, app_now()
           from generate_series(1, $3) i`,
        [sender.workspaceId, what, many],
      )
    const looks = async () => {
      const found: number[] = []
      const seen = watched(world.db, {
        answered: (name, rows) => name === 'idempotency-keys-outlived' && found.push(rows.length),
      })
      await keepHouse(seen, retention, noPause)
      return found
    }
    await insert('old')
    await keep()
    await inDays(90 + 2 * 28 + 1)
    // Where old ones were, new ones come to lie: no summary of their pages tells them apart any more.
    await world.db.run(`delete from idempotency_keys where right(key, 1) = '7'`)
    await world.settled()
    await world.db.run('vacuum idempotency_keys')
    await insert('new')
    const found = await looks()
    expect(found.length).toBeGreaterThan(9)
    expect(Math.max(...found)).toBeLessThan(limits.housekeepingRows)
    expect(await world.value(`select concat_ws(' ', count(*), min(left(key, 3))) from idempotency_keys`)).toBe(
      `${many} new`,
    )
    expect(await looks()).toEqual([])
  })
})

test('nothing grows without end: a round takes what is over of everything, and leaves the rest', async () => {
  const now = await world.value<string>('select app_now()::text')
  const over = await world.value<string>(`select (app_now() - interval '400 days')::text`)
  await world.db.run(
    `insert into users (id, email, email_key, name, password_hash) values ($1, 'ann@example.org', 'ann@example.org', 'Ann', 'x')`,
    [world.nextId()],
  )
  const inserts = {
    idempotency_keys: `select $1, 'smtp-repeat', name, 'h', id, at from given`,
    staged_blobs: 'select id, at from given',
    refused_submissions: `select $1, id, at, 'rest', 'x' from given`,
    report_fingerprints: `select $1, id, name::bytea, at from given`,
    relayed: `select $1, name, $1, id, at from given`,
    unmatched_feedback: `select id, at, 'x', 'x', 'x', 'x', '{}', 0, '' from given`,
    mta_sts_policies: `select name, 'x', 'none', '{}', 1, at, at + interval '1 hour' from given where $1::uuid is not null`,
    sessions: `select id, name::bytea, (select id from users), at, at, at + interval '1 hour', 'x', 'x' from given`,
    sign_in_guesses: 'select name::bytea, 1, at from given',
  }
  for (const [table, values] of Object.entries(inserts))
    await world.db.run(
      `with given as (select * from (values ($2::uuid, 'over', $3::timestamptz), ($4::uuid, 'now', $5::timestamptz)) g (id, name, at)
                       where $1::uuid is not null)
       insert into ${table} ${table === 'idempotency_keys' ? '(workspace_id, endpoint, key, body_hash, message_id, created_at)' : ''} ${values}`,
      [sender.workspaceId, world.nextId(), over, world.nextId(), now],
    )
  await world.db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content)
     select uuid_floor(app_now() - i * interval '1 second'), app_now(), '', 'x', '' from generate_series(1, $1) i`,
    [limits.sandboxInboxMax + 3],
  )
  await keep()
  const left = await Promise.all(
    [...Object.keys(inserts), 'sandbox_mail'].map(async (table) => [
      table,
      await world.value<number>(`select count(*)::integer from ${table}`),
    ]),
  )
  expect(Object.fromEntries(left)).toEqual({
    ...Object.fromEntries(Object.keys(inserts).map((table) => [table, 1])),
    sandbox_mail: limits.sandboxInboxMax,
  })
})

// Each such table was waited for until the statement's time was over, and nothing of it went for as long as somebody's psql was open.
test('a row that somebody holds keeps nothing else of its table from going', async () => {
  const old = (table: string, values: string) =>
    world.db.run(
      `insert into ${table} select ${values} from (values ($2::uuid), ($3::uuid)) g (id), (select app_now() - interval '500 days' as at) t where $1::uuid is not null`,
      [sender.workspaceId, ...[500, 499].map((days) => idAt(Date.now() - days * day))],
    )
  await old('report_fingerprints (workspace_id, message_id, fingerprint, seen_at)', `$1, id, '', at`)
  await old('relayed (route, provider_id, workspace_id, message_id, at)', `$1, id::text, $1, id, at`)
  await old(
    'unmatched_feedback (id, received_at, reason, source, sender, addressee, facts, size_bytes, content)',
    `id, at, 'x', 'x', 'x', 'x', '{}', 0, ''`,
  )
  await old('audit_log (id, workspace_id, at, actor, action)', `id, $1, at, 'x', 'x'`)
  const tables = ['report_fingerprints', 'relayed', 'unmatched_feedback', 'audit_log']
  const left = () => Promise.all(tables.map((table) => world.value<number>(`select count(*)::integer from ${table}`)))
  expect(await left()).toEqual([2, 2, 2, 2])
  const holder = await world.session()
  await holder.query('begin')
  for (const table of tables) await holder.query(`select from ${table} limit 1 for update`)
  await keep()
  expect(await left()).toEqual([1, 1, 1, 1])
  await holder.query('rollback')
  await keep()
  expect(await left()).toEqual([0, 0, 0, 0])
})

test('a wrong password of long ago, before weeks without housekeeping, locks nobody out', async () => {
  const name = Buffer.from('ann')
  await addGuess(world.db, name, limits.guessForgottenMs)
  await inDays(60)
  expect(await countGuesses(world.db, name, limits.guessForgottenMs)).toBeCloseTo(0)
  expect(await addGuess(world.db, name, limits.guessForgottenMs)).toBeCloseTo(1)
  await inDays(120)
  await keep()
  expect(await world.value('select count(*)::integer from sign_in_guesses')).toBe(0)
})

test('a wrong password from while the clock was ahead locks nobody out when it is right again', async () => {
  const name = Buffer.from('bob')
  await leapDays(30)
  await addGuess(world.db, name, limits.guessForgottenMs)
  await world.setClock()
  expect(await countGuesses(world.db, name, limits.guessForgottenMs)).toBeCloseTo(0)
})

describe('a clock that leaps ahead', () => {
  const leapt = 'nothing is deleted for its age for a day'

  test('deletes nothing for a day, and all that was there is there when it is right again', async () => {
    const id = await finished()
    await keep()
    await leapDays(365)
    await expect(keep()).rejects.toThrow(leapt)
    await leapDays(365.9)
    await keep() // told once
    expect(await rowsOf(id)).toBe('1 1 2')
    await world.setClock()
    await keep()
    expect(await rowsOf(id)).toBe('1 1 2')
    expect(await body(id)).toEqual(['Good morning', undefined])
    // It is believed as before.
    for (const days of [5, 10, 15]) {
      await leapDays(days)
      await keep()
    }
    expect(await rowsOf(id)).toBe('1 0 2')
  })

  test('is not believed because two nodes see it at once: the one that began first and looked last, neither', async () => {
    const id = await finished()
    await keep()
    const then = Date.now() + 365 * day
    const clockAt = (ms: number) => world.setClock(new Date(ms).toISOString())
    await clockAt(then)
    await expect(keep()).rejects.toThrow(leapt)
    for (const ms of [then - 10, then + day / 2]) {
      await clockAt(ms)
      await keep()
      expect(await rowsOf(id)).toBe('1 1 2')
    }
  })

  test('is believed when it has gone on for a day', async () => {
    const id = await finished()
    await keep()
    await leapDays(365)
    await expect(keep()).rejects.toThrow(leapt)
    await leapDays(366.1)
    await keep()
    expect(await rowsOf(id)).toBe('0 0 0')
  })

  test('or at the second gap: an installation that is started once a month deletes too', async () => {
    const id = await finished()
    await keep()
    await leapDays(30)
    await expect(keep()).rejects.toThrow(leapt)
    expect(await rowsOf(id)).toBe('1 1 2')
    await leapDays(60)
    await keep()
    expect(await rowsOf(id)).toBe('1 0 0')
  })
})

test('what cannot be done now keeps nothing else from being done', async () => {
  await world.db.run('alter table sent_again rename to sent_once')
  await writeAudit(world.db, { actor: 'cli', action: 'thing.made', workspaceId: sender.workspaceId })
  await inDays(401)
  await expect(keep()).rejects.toThrow('sent_again')
  expect(await world.value('select count(*) from audit_log')).toBe('0')
})

describe('what found no partition', () => {
  /** An id as a clock makes it that is so many days ahead. */
  const idInDays = (days: number) => idAt(Date.now() + days * day)
  const astray = () =>
    world.value<string>(
      `select concat_ws(' ', (select count(*) from messages_default), (select count(*) from contents_default),
                        (select count(*) from events_default))`,
    )

  test('is in nobody’s way when its time comes: it moves into the partitions that are made', async () => {
    const id = idInDays(60)
    await makeAdmitter(world.db).admit(world.submission(sender, { id }))
    expect(await astray()).toBe('1 1 1')
    await inDays(59)
    await keep()
    expect(await astray()).toBe('0 0 0')
    expect(await rowsOf(id)).toBe('1 1 1')
    expect(await body(id)).toEqual(['Good morning', undefined])
    // The new partitions are like all others: with their indexes and guards, and retention takes them.
    await expect(world.db.run(`update messages set status = 'sent' where id = $1`, [id])).rejects.toThrow(
      'may not become sent from queued',
    )
    expect(
      await world.value(
        `select count(distinct n) || ' ' || count(distinct reloptions) from (
           select count(*) n, c.reloptions from dated_partitions() d join pg_class c on c.relname = d.child join pg_index i on i.indrelid = c.oid
            where d.parent = 'messages' group by c.oid) each`,
      ),
    ).toBe('1 1')
    await world.db.run('delete from outbound')
    await inDays(60 + 90 + 28)
    await keep()
    expect(await rowsOf(id)).toBe('0 0 0')
  })

  test('has an end as everything has, but for what the queue needs', async () => {
    const [old, late] = [idInDays(-100), idInDays(-50)]
    await makeAdmitter(world.db).admit(world.submission(sender, { id: old }))
    // A late report on a message whose events are gone.
    await world.db.run(
      `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
       values ($1, $2, 5, 'message.complained', 'sent', 4, app_now())`,
      [sender.workspaceId, late],
    )
    await inDays(100)
    await keep()
    expect(await astray()).toBe('1 1 2')
    await world.setClock()
    await world.db.run('delete from outbound')
    await keep()
    expect(await astray()).toBe('1 0 2') // what was told is told of today
    await inDays(31)
    await keep()
    expect(await astray()).toBe('1 0 0')
    await inDays(91)
    await keep()
    expect(await astray()).toBe('0 0 0')
  })

  test('is kept for as long as an active endpoint has still to be told of it', async () => {
    const old = idInDays(-100)
    await anEndpoint(sender)
    await makeAdmitter(world.db).admit(world.submission(sender, { id: old }))
    await world.db.run('delete from outbound')
    await inDays(100)
    await keep()
    expect(await astray()).toBe('1 0 1')
    await world.db.run('delete from webhook_queue')
    await keep()
    expect(await astray()).toBe('0 0 0')
  })

  test('a table that is in use keeps no other one waiting for its partitions: whoever sends may hold this one and wait for that', async () => {
    const endOf = (parent: string) =>
      world.value<Date>('select max(ends) from dated_partitions() where parent = $1', [parent])
    const sending = await world.holding('lock table events in row exclusive mode')
    await inDays(20)
    let meanwhile: Date | undefined
    await keepHouse(world.db, retention, async () => {
      meanwhile ??= await endOf('messages')
      await sending.query('commit')
    })
    expect(meanwhile?.getTime()).toBeGreaterThan(Date.now() + 33 * day)
    for (const parent of ['messages', 'contents', 'events', 'webhook_attempts'])
      expect((await endOf(parent)).getTime()).toBeGreaterThan(Date.now() + 33 * day)
  })

  test('a start does not wait for whoever reads, and nobody waits behind it', async () => {
    const reader = await world.holding('select count(*) from contents')
    await inDays(40)
    await migrate(world.connection)
    await reader.query('commit')
    await migrate(world.connection)
    const ahead = await world.value<Date>(`select max(ends) from dated_partitions() where parent = 'contents'`)
    expect(ahead.getTime()).toBeGreaterThan(Date.now() + 53 * day)
  })
})

test('what was written while the clock was ahead does not wait until that time comes', async () => {
  await inDays(40)
  const [lost] = await world.claimed(sender, [{}])
  await makeAdmitter(world.db).admit(world.submission(sender, { destination: 'ahead.example' }))
  await world.setClock()
  const [alive] = await world.claimed(sender, [{}])
  await makeAdmitter(world.db).admit(world.submission(sender, { destination: 'now.example' }))
  await world.db.run(`update outbound set due_at = app_now() + interval '9 hours' where destination = 'now.example'`)
  await keep()
  const waits = (column: string, which: string, value: unknown) =>
    world.value<number>(
      `select ceil(extract(epoch from ${column} - app_now()) / 60)::integer from outbound where ${which} = $1`,
      [value],
    )
  expect(await waits('due_at', 'destination', 'ahead.example')).toBeLessThanOrEqual(0)
  expect(await waits('lease_until', 'message_id', lost?.id)).toBe(60)
  expect(await waits('lease_until', 'message_id', alive?.id)).toBe(1)
  expect(await waits('due_at', 'destination', 'now.example')).toBe(9 * 60)
})

test('a domain that was looked at while the clock was ahead is looked at again', async () => {
  const dueIn = async (ms: number) => {
    await world.db.run(`update domains set check_due_at = app_now() + $1 * interval '1 millisecond'`, [ms])
    await keep()
    return world.value<number>(
      'select round(extract(epoch from check_due_at - app_now()))::integer from domains limit 1',
    )
  }
  expect(await dueIn(40 * day)).toBeLessThanOrEqual(0)
  expect(await dueIn(limits.domainFailedMs - 60_000)).toBeGreaterThan(limits.domainFailedMs / 1000 - 120)
})

test('a round reads as little beside a long queue and many counts as beside none; old counts go', async () => {
  const long = Array.from({ length: 20_000 }, (_, n) => n)
  const { workspaceId, mailboxId } = sender
  await world.db.run(
    `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
     select gen_random_uuid(), $1, $2, 'example.org', app_now() + n * interval '1 second', app_now() + interval '1 day' from unnest($3::integer[]) n`,
    [workspaceId, mailboxId, long],
  )
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
     select $1, gen_random_uuid(), 1, app_now() + n * interval '1 second' from unnest($2::integer[]) n`,
    [workspaceId, long],
  )
  await world.db.run(
    `insert into hourly_counts (workspace_id, hour, kind, bucket, many)
     select $1, date_trunc('hour', app_now()) - n * interval '1 hour', 'sent', 0, 1 from unnest($2::integer[]) n`,
    [workspaceId, long.slice(0, 24 * limits.countsKeptDays + 48)],
  )
  await keep()
  const oldest = await world.value<number>(
    'select extract(epoch from app_now() - min(hour))::float8 / 86400 from hourly_counts',
  )
  expect([oldest > limits.countsKeptDays - 1, oldest <= limits.countsKeptDays]).toEqual([true, true])

  await world.settled()
  await world.db.run('vacuum analyze outbound, webhook_queue, hourly_counts')
  const pages = new Map<string, number>()
  const reading: Db = {
    ...world.db,
    rows: async (statement, values) => {
      if (!/^(?:hasten-(?:outbound|webhook_queue)|prune-counts)$/.test(statement.name))
        return world.db.rows(statement, values)
      const [row] = await world.db.run<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        `explain (analyze, buffers, format json) ${statement.text}`,
        values,
      )
      const plan = row?.['QUERY PLAN'][0].Plan ?? {}
      pages.set(statement.name, (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0))
      return []
    },
  }
  await keepHouse(reading, retention, noPause)
  expect([...pages.keys()]).toEqual(['hasten-outbound', 'hasten-webhook_queue', 'prune-counts'])
  expect(Math.max(...pages.values())).toBeLessThan(30)
})

test('partitions with dates are known by their bounds as PostgreSQL has them, and one with an open end is none of them', async () => {
  const known = 'select child, low::text, high::text from dated_partitions() order by child'
  const before = await world.db.run<{ child: string; low: string; high: string }>(known)
  const catalogue = `select c.relname::text child, b[1] low, b[2] high
      from pg_class c cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \\('(.*)'\\) TO \\('(.*)'\\)$$) b
     where c.relkind = 'r' and c.relispartition and b is not null order by 1`
  expect(before.length).toBeGreaterThan(30)
  expect(await world.db.run(catalogue)).toEqual(before)
  const [low, high] = [
    before.map((each) => each.low).toSorted()[0],
    before
      .map((each) => each.high)
      .toSorted()
      .at(-1),
  ]
  await world.db.run(`create table contents_ever partition of contents for values from ('${high}') to (maxvalue)`)
  await world.db.run(`create table contents_once partition of contents for values from (minvalue) to ('${low}')`)
  expect(await world.db.run(known)).toEqual(before)
})

describe('the more is kept, the wider are its partitions', () => {
  const dated = (parent: string) =>
    world.db.run<{ low: Date; high: Date }>(
      'select instant_of(low) low, ends high from dated_partitions() where parent = $1 order by low',
      [parent],
    )
  const parents = [
    'messages',
    'contents',
    'attachments',
    'blobs',
    'events',
    'reports',
    'attempts',
    'webhook_attempts',
    'scans',
  ]

  // One claim held 2,386 locks where content was kept for 1,000 days, of 15,000 for which the server has room, and took 150 ms.
  test('no more than 64 of them are kept, and what is expired goes when it was said; with the usual times they are as they were', async () => {
    const wide = async (...kept: readonly [records: number, events: number, content: number]) => {
      const [recordsDays, eventsDays, contentDays] = kept
      await keepHouse(world.db, { ...retention, recordsDays, eventsDays, contentDays }, () => Promise.resolve())
      const rows = await world.db.run<{ parent: string; days: number }>('select * from partition_days()')
      const days = Object.fromEntries(rows.map((row) => [row.parent, row.days]))
      return ['messages', 'events', 'contents'].map((parent) => days[parent])
    }
    expect(await wide(90, 30, 7)).toEqual([28, 7, 2])
    expect(await wide(128, 128, 128)).toEqual([28, 7, 2])
    expect(await wide(1_793, 449, 129)).toEqual([56, 14, 4])
    expect(await wide(3_650, 1_000, 1_000)).toEqual([112, 28, 16])
    expect(await wide(36_500, 36_500, 36_500)).toEqual([896, 896, 1_024])
  })

  test('whatever was asked for before: they neither overlap nor leave out a day', async () => {
    const asked = [7, 1_000, 36_500, 7].map((contentDays) => ({
      ...retention,
      recordsDays: 36_500,
      contentDays,
    }))
    for (const [n, kept] of asked.entries()) {
      await inDays(n * 15)
      await keepHouse(world.db, kept, noPause)
      expect((await dated('contents')).at(-1)?.high.getTime()).toBeGreaterThan(Date.now() + (n * 15 + 14) * day)
    }
    for (const parent of parents) {
      const there = await dated(parent)
      for (const [n, { low }] of there.entries()) if (n > 0) expect([parent, low]).toEqual([parent, there[n - 1]?.high])
    }
  })
})

describe('nobody who sends waits for it', () => {
  test('a partition that somebody reads is left alone for now, and sends go on meanwhile', async () => {
    const id = await finished()
    const reader = await world.holding('select count(*) from contents')
    await inDays(12)
    let pauses = 0
    let sent = 0
    await keepHouse(world.db, retention, async () => {
      pauses += 1
      // The lock that retention asked for is not in anybody's way.
      await makeAdmitter(world.anotherNode()).admit(world.submission(sender))
      await world.db.run('delete from outbound') // its id is of today, as that of the partition
      sent += 1
      if (pauses === 2) await reader.query('commit')
    })
    expect(sent).toBe(2)
    expect(await rowsOf(id)).toBe('1 0 2')
  })

  test('two nodes at once do the work once', async () => {
    const id = await finished()
    await inDays(12)
    const other = world.anotherNode()
    const patient = () => Promise.resolve() // each may find the other at work
    await Promise.all([keepHouse(world.db, retention, patient), keepHouse(other, retention, patient)])
    await keep()
    expect(await rowsOf(id)).toBe('1 0 2')
    expect(await world.value(`select count(*) from pg_class where relname like 'expired%' and relkind = 'r'`)).toBe('0')
  })

  test('after a day with old partitions dropped, new ones are still made ahead', async () => {
    await inDays(120)
    await keep()
    const ahead = await world.value<Date>(`select max(ends) from dated_partitions() where parent = 'contents'`)
    expect(ahead.getTime()).toBeGreaterThan(Date.now() + 133 * day)
  })
})

test('counts come together also where no node serves the API, whose work that is', async () => {
  await world.claimed(sender, [{}, {}])
  const fresh = () => world.value<number>('select count(*)::integer from fresh_counts')
  expect(await fresh()).toBeGreaterThan(0)
  await keep()
  expect(await fresh()).toBe(0)
  expect(await world.value<number>(`select many::integer from hourly_counts where kind = 'queued'`)).toBe(2)
})
