import {
  closeSync,
  createWriteStream,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { Client } from 'pg'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { ending, temporaryFolder } from '../../test/world/ending.ts'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import { makeAdmitter } from './admit.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { isRefusal } from '../domain/refusal.ts'
import { catchUp } from '../webhooks/webhooks.ts'
import { backUp, restore, type BackupProgress, type RestoreProgress } from './backup.ts'
import { openDatabase, type Db } from './database.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()
const empty = await ending(freshDatabase)
const folder = temporaryFolder()

/** Every row of every table as text, sorted: what two databases must agree in. */
async function contentOf(connection: FreshDatabase['connection']): Promise<Record<string, string[]>> {
  const client = new Client(connection)
  await client.connect()
  const { rows: tables } = await client.query<{ name: string }>(
    `select relname as name from pg_class where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
      order by 1`,
  )
  const content: Record<string, string[]> = {}
  for (const { name } of tables) {
    const { rows } = await client.query<{ row: string }>(`select t::text as row from "${name}" t order by 1`)
    content[name] = rows.map(({ row }) => row)
  }
  await client.end()
  return content
}

const strange = 'Grüße 📯 \u2028 "quoted" \\ \t back\r\nslash'

describe('a backup', () => {
  let file: string
  beforeAll(async () => {
    file = join(folder, 'posthorn.backup')
    const sender = await world.sender({ hourly: 100 })
    const admitter = makeAdmitter(world.db)
    for (let n = 0; n < 60; n++)
      await admitter.admit(
        world.submission(sender, {
          body: `${strange} ${n}`,
          metadata: { note: strange },
          endpoint: 'send',
          idem: `k${n}`,
          hash: 'h',
        }),
      )
    await world.claimed(sender, [{ armed: true }, { epoch: 3, attempts: 2 }])
    await world.db.run(
      `insert into blobs (id, part, bytes) select $1, n, sha512(n::text::bytea) from generate_series(0, 99) n`,
      [world.nextId()],
    )
  })

  test('comes back row by row as it was, and is for its owner alone', async () => {
    const { rows, takenAt } = await backUp(world.connection, file)
    expect(rows).toBeGreaterThan(400)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect((await restore(empty.connection, file)).takenAt).toEqual(takenAt)
    const [restored, original] = [await contentOf(empty.connection), await contentOf(world.connection)]
    // No table counts by itself: a number that goes on from elsewhere would have to come back, too.
    expect(await world.value(`select count(*)::integer from pg_class where relkind = 'S'`)).toBe(0)
    // But for what means something in its own cluster alone.
    const { events: own = [], installation: facts = [], delivery_stops: stops = [], ...rest } = restored
    const { events = [], installation = [], delivery_stops: _, ...others } = original
    expect(rest).toEqual(others)
    // Mail in it may have been sent since: nobody delivers from the moment when its rows are there.
    expect(stops).toEqual([expect.stringMatching(/^\(fence,restored,/)])
    const withoutTransaction = (rows: readonly string[]) => rows.map((row) => row.replace(/,\d+\)$/, ')'))
    expect(withoutTransaction(own)).toEqual(withoutTransaction(events))
    const isMark = (fact: string) => fact.startsWith('(restored,')
    expect(facts.filter((fact) => !isMark(fact))).toEqual(installation.filter((fact) => !isMark(fact)))
    expect(facts.find(isMark)).not.toBe(installation.find(isMark))
  })

  test('tells whoever waits how far it is, on the way there and back', async () => {
    const into = await ending(freshDatabase)
    const [there, back]: [BackupProgress[], RestoreProgress[]] = [[], []]
    const { rows } = await backUp(world.connection, file, { told: (at) => there.push(at) })
    await restore(into.connection, file, (at) => back.push(at))
    for (const told of [there, back]) {
      expect(told.at(-1)?.rows).toBe(rows)
      expect(told.map(({ rows: soFar }) => soFar)).toEqual(told.map((at) => at.rows).sort((a, b) => a - b))
      expect(told.map(({ table }) => table)).toEqual(expect.arrayContaining(['messages', 'events', 'workspaces']))
    }
    expect(back.every(({ part }) => part > 0 && part <= 1)).toBe(true)
    expect(back.at(-1)?.part).toBe(1)
  })

  // For records that are kept for years, a restore made as many partitions for days of content, and ended: out of shared memory.
  test('comes back in the partitions that there were, however old and wide, and in those that mail of today needs', async () => {
    const [from, to] = [await storeWorld(), await freshDatabase()]
    try {
      const old = `select make_partition_1('messages', instant_of(uuid_floor('2012-01-01')), instant_of(uuid_floor('2014-01-01')))`
      await from.db.run(old)
      await from.db.run('create table expired_messages_20110101 (like messages)') // taken off by retention, and gone in a moment
      const dated = 'select parent, child, low, high from dated_partitions() order by parent, low'
      const all = await from.db.run<{ parent: string; child: string }>(dated)
      await from.db.run(`drop table ${all.findLast(({ parent }) => parent === 'events')?.child}`) // not made yet, weeks ago
      await backUp(from.connection, join(folder, 'old.backup'))
      await restore(to.connection, join(folder, 'old.backup'))
      const other = new Client(to.connection)
      await other.connect()
      expect((await other.query(dated)).rows).toEqual(all)
      await other.end()
    } finally {
      await to.drop()
    }
  })

  test('is for its owner alone also where something lay at the name that it is written under: readable by all, or leading elsewhere', async () => {
    const [loose, led, foreign] = ['loose.backup', 'led.backup', 'foreign'].map((name) => join(folder, name)) as [string, string, string] // prettier-ignore
    writeFileSync(`${loose}.unfinished`, 'cut off', { mode: 0o644 })
    const reader = openSync(`${loose}.unfinished`, 'r') // somebody who waits for what will stand there
    writeFileSync(foreign, 'of somebody')
    symlinkSync(foreign, `${led}.unfinished`)
    await backUp(world.connection, loose)
    await backUp(world.connection, led)
    expect([statSync(loose), lstatSync(led)].map(({ mode }) => mode & 0o170777)).toEqual([0o100600, 0o100600])
    expect(readFileSync(reader, 'utf8')).toBe('cut off')
    closeSync(reader)
    expect(readFileSync(foreign, 'utf8')).toBe('of somebody')
  })

  test('fires no trigger when it is restored, and all of them afterwards', async () => {
    const client = new Client(empty.connection)
    await client.connect()
    const move = client.query(`update messages set status = 'sent', finished_at = now() where status = 'queued'`)
    await expect(move).rejects.toThrow(/may not become sent from queued/)
    await client.end()
  })

  test('shows its events to readers again from the beginning, because their place in the order is gone', async () => {
    const [old, restored] = [world.connection, empty.connection].map((connection) =>
      openDatabase(connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 }),
    ) as [Db, Db]
    const workspace = await world.value<WorkspaceId>('select workspace_id from events limit 1')
    await world.settled()
    const all = await catchUp(old, workspace, undefined, 500)
    if (isRefusal(all)) throw new Error(all.words)
    const again = await catchUp(restored, workspace, all.next, 500)
    if (isRefusal(again)) throw new Error(again.words)
    expect(again.events.map(({ id }) => id).toSorted()).toEqual(all.events.map(({ id }) => id).toSorted())
    expect(await catchUp(restored, workspace, again.next, 500)).toMatchObject({ events: [], next: again.next })
    await Promise.all([old.close(), restored.close()])
  })

  test('stops delivery also where nothing in it waits, as the next start would; without any message there is nothing to stop', async () => {
    const [quiet, there] = await Promise.all([storeWorld(), freshDatabase()])
    const told = join(folder, 'quiet.backup')
    const restored = async (into: FreshDatabase) => {
      await backUp(quiet.connection, told)
      const { stopped } = await restore(into.connection, told)
      const { delivery_stops: stops = [] } = await contentOf(into.connection)
      return { stopped, stops }
    }
    try {
      const sender = await quiet.sender()
      expect(await restored(there)).toEqual({ stopped: false, stops: [] })
      await makeAdmitter(quiet.db).admit(quiet.submission(sender))
      await quiet.db.run('delete from outbound')
      const fresh = await freshDatabase()
      expect(await restored(fresh)).toEqual({
        stopped: true,
        stops: [expect.stringMatching(/^\(fence,restored,/)],
      })
      await fresh.drop()
    } finally {
      await there.drop()
    }
  })

  test('taken while delivery was stopped: stops it from the moment on when it is put back, for it went on in between', async () => {
    const [stopped, there] = [await ending(storeWorld), await ending(freshDatabase)]
    await makeAdmitter(stopped.db).admit(stopped.submission(await stopped.sender()))
    await stopped.db.run(
      `insert into delivery_stops (kind, reason, since) select kind, 'test', '2026-01-01Z' from unnest(array['fence', 'pause']) kind`,
    )
    const before = new Date()
    const told = join(folder, 'stopped.backup')
    await backUp(stopped.connection, told)
    await restore(there.connection, told)
    const { delivery_stops: stops = [] } = await contentOf(there.connection)
    const [, since = ''] = /^\(fence,restored,,"(.*)"\)$/.exec(stops.join()) ?? []
    expect(new Date(since).getTime()).toBeGreaterThanOrEqual(before.getTime() - 1)
  })

  test('taken by a clock that was ahead of the one where it is put back: what waits in it is no younger than the stop', async () => {
    const [ahead, there] = [await ending(storeWorld), await ending(freshDatabase)]
    await makeAdmitter(ahead.db).admit(ahead.submission(await ahead.sender()))
    await ahead.db.run(`update messages set created_at = '2100-01-01Z'`)
    const told = join(folder, 'ahead.backup')
    await backUp(ahead.connection, told)
    await restore(there.connection, told)
    const { delivery_stops: stops = [] } = await contentOf(there.connection)
    expect(stops).toEqual([expect.stringMatching(/^\(fence,restored,,"2100-01-01/)])
  })

  test('is not put over a database that is used', async () => {
    await expect(restore(world.connection, file)).rejects.toThrow(/empty database/)
  })

  test('nor over one that somebody begins to use at that moment: their first workspace stays', async () => {
    const target = await ending(freshDatabase)
    const first = new Client(target.connection)
    first.on('error', () => undefined)
    await first.connect()
    await first.query('begin')
    await first.query(
      `insert into workspaces (id, name, plan) select gen_random_uuid(), 'first', name from plans limit 1`,
    )
    const refused = expect(restore(target.connection, file)).rejects.toThrow(/empty database/)
    const waits = `select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`
    while ((await first.query(waits)).rowCount === 0) continue
    await first.query('commit')
    await refused
    expect((await first.query('select name from workspaces')).rows).toEqual([{ name: 'first' }])
    await first.end()
  })

  test('is of one instant, whatever is sent meanwhile', async () => {
    const sender = await world.sender()
    const admitter = makeAdmitter(world.db)
    const written = new AbortController()
    const sending = (async () => {
      while (!written.signal.aborted) await admitter.admit(world.submission(sender))
    })()
    const second = join(folder, 'second.backup')
    await backUp(world.connection, second)
    written.abort()
    await sending
    const lines = zstdDecompressSync(readFileSync(second)).toString('utf8').split('\n')
    const many = (table: string) => {
      const from = lines.indexOf(JSON.stringify({ table })) + 1
      return lines.slice(from).findIndex((line) => line.startsWith('{"table":') || line.startsWith('{"end"'))
    }
    // Each message has its content and its queue row; two of the kit's claims have content and queue rows as well.
    expect(many('contents')).toBe(many('messages'))
    expect(many('outbound')).toBe(many('messages'))
  })

  test('is of one instant, whatever migrations rewrite meanwhile', async () => {
    const [holder, migrator] = [new Client(world.connection), new Client(world.connection)]
    await Promise.all([holder.connect(), migrator.connect()])
    await migrator.query(`insert into delivering_nodes (id, name, counter) values (gen_random_uuid(), 'node', 7)`)
    // The backup stands at one of its first tables.
    await holder.query('begin')
    await holder.query('lock table attachments in access exclusive mode')
    const third = join(folder, 'third.backup')
    const backing = backUp(world.connection, third)
    await vi.waitFor(async () => {
      const { rowCount } = await migrator.query(
        `select from pg_stat_activity where application_name = 'posthorn backup' and wait_event_type = 'Lock' and datname = current_database()`,
      )
      expect(rowCount).toBe(1)
    })
    // To whoever looks with an older snapshot for the first time, a table that was rewritten is empty.
    await migrator.query(
      'alter table delivering_nodes add column twice bigint generated always as (2 * counter) stored',
    )
    await holder.query('rollback')
    await backing
    await migrator.query('alter table delivering_nodes drop column twice')
    await Promise.all([holder.end(), migrator.end()])
    const lines = zstdDecompressSync(readFileSync(third)).toString('utf8').split('\n')
    expect(lines[lines.indexOf('{"table":"delivering_nodes"}') + 1]).toMatch(/"counter":7/)
  })

  test('holds little in memory, however large the mails are', async () => {
    const [mails, mebibyte] = [3, 1024 * 1024]
    await world.db.run(
      `insert into sandbox_mail (id, received_at, envelope_from, recipient, content)
       select (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, now(), '', 'ann@example.org',
              convert_to(repeat('x', $1), 'UTF8') from generate_series(1, $2) i`,
      [32 * mebibyte, mails],
    )
    const held = () => process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers
    const before = held()
    let most = before
    const watch = setInterval(() => (most = Math.max(most, held())), 1)
    await backUp(world.connection, join(folder, 'large'))
    clearInterval(watch)
    // Of one mail alone: 64 of the server's message, and as much of the line.
    expect((most - before) / mebibyte).toBeLessThan(100)
    await world.db.run('delete from sandbox_mail')
  })

  test('that cannot be written ends, and so does what the server was sending', async () => {
    await world.db.run(
      `insert into blobs (id, part, bytes) select $1, n, convert_to(repeat(md5(n::text), 32768), 'UTF8') from generate_series(0, 63) n`,
      [world.nextId()],
    )
    const full = join(folder, 'full')
    const backingUp = backUp(world.connection, full, { writeTo: () => createWriteStream('/dev/full') })
    await expect(backingUp).rejects.toThrow(`${full} cannot be written: the disk is full.`)
    const copying = `select from pg_stat_activity where application_name = 'posthorn backup' and datname = current_database()`
    while ((await world.db.run(copying)).length > 0) continue
    expect([full, `${full}.unfinished`].filter((each) => existsSync(each))).toEqual([]) // it would keep the disk full
  })

  test('takes the place of a file alone, and never that of a device', async () => {
    const device = join(folder, 'null')
    symlinkSync('/dev/null', device)
    await expect(backUp(world.connection, device)).rejects.toThrow(`${device} cannot be written: it is a device`)
    expect(readlinkSync(device)).toBe('/dev/null')
    await expect(backUp(world.connection, folder)).rejects.toThrow(`${folder} cannot be written: it is a folder.`)
    expect(existsSync(`${folder}.unfinished`)).toBe(false)
  })

  test('that is cut off, or no backup at all, changes nothing', async () => {
    const whole = zstdDecompressSync(readFileSync(file)).toString('utf8').trimEnd().split('\n')
    const row = whole.findIndex((line) => line.startsWith('{"workspace_id"'))
    const cut = join(folder, 'cut.backup')
    const target = await freshDatabase()
    const before = await contentOf(target.connection)
    const wrong: [string, RegExp][] = [
      [whole.slice(0, -1).join('\n'), /is cut off: its end is missing/],
      [whole.filter((_, at) => at !== row).join('\n'), /is damaged: it has \d+ of \d+ rows/],
      ['{"hello":1}', /no backup/],
      [[whole[0]?.replace('0001', '0000'), ...whole.slice(1)].join('\n'), /restore it with the release/],
    ]
    for (const [text, words] of wrong) {
      writeFileSync(cut, zstdCompressSync(`${text}\n`))
      await expect(restore(target.connection, cut)).rejects.toThrow(words)
    }
    writeFileSync(cut, readFileSync(file).subarray(0, -100))
    await expect(restore(target.connection, cut)).rejects.toThrow()
    await expect(restore(target.connection, join(folder, 'nothing'))).rejects.toThrow(/There is no file/)
    expect(await contentOf(target.connection)).toEqual(before)
    await target.drop()
  })

  test('comes back with what PostgreSQL keeps as JSON and takes no member out of, as an older release may have kept it', async () => {
    const [told, target] = [join(folder, 'unreadable.backup'), await freshDatabase()]
    const words = (none: string, half: string, space: string) =>
      String.raw`{"said" :${space}"U+0000 ${none}, half a pair ${half}, a pair \uD83D\uDCEF, a quote \" and \\u0000"}`
    await world.db.run(
      `insert into unmatched_feedback (id, reason, source, sender, addressee, facts, size_bytes, content)
       values ($1, 'no_report', 'mail', '', '', $2::text::json, 0, '')`,
      [world.nextId(), words(String.raw`\u0000`, String.raw`\ud83d \udcef`, '\r\n')],
    )
    try {
      await backUp(world.connection, told)
      await restore(target.connection, told)
      const client = new Client(target.connection)
      await client.connect()
      const { rows } = await client.query('select facts::text said from unmatched_feedback')
      await client.end()
      expect(rows).toEqual([{ said: words(String.raw`\ufffd`, String.raw`\ufffd \ufffd`, '  ') }])
    } finally {
      await world.db.run('delete from unmatched_feedback')
      await target.drop()
    }
  })

  test('is the only one that writes its file: two at once would be of pieces of each other', async () => {
    const both = join(folder, 'both.backup')
    const ended = await Promise.allSettled([backUp(world.connection, both), backUp(world.connection, both)])
    expect(ended.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect(ended.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { message: expect.stringContaining(`${both} is just being written by another backup`) as string },
    })
    const lines = zstdDecompressSync(readFileSync(both)).toString('utf8').trimEnd().split('\n')
    expect(lines.at(-1)).toMatch(/^{"end":true/)
    // It is free again.
    await backUp(world.connection, both)
  })

  test('leaves an older one in its place until it is whole', async () => {
    const before = readFileSync(file)
    const nowhere = { ...world.connection, database: 'there_is_no_such_database' }
    await expect(backUp(nowhere, file)).rejects.toThrow(/does not exist/)
    expect(readFileSync(file).equals(before)).toBe(true)
  })
})
