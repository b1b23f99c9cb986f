// Whom a workspace does not write to: lists that come in whole or not at all, go out and come in again, and say who did what.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import {
  addSuppression,
  createWorkspace,
  exportSuppressions,
  importSuppressions,
  listSuppressions,
  removeSuppression,
  suppressing,
  undoRule,
  type Workspace,
} from './workspace.ts'
import { by, db, other, shop, vault } from './workspace.test-kit.ts'

describe('suppressions', () => {
  const waiting = `select from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.datname = current_database()`
  const all = () => Array.fromAsync(listSuppressions(db, shop.id), ({ recipient, reason }) => `${recipient} ${reason}`)
  const exported = async ({ id }: Workspace) => (await Array.fromAsync(exportSuppressions(db, id))).join('')

  test('are compared in lower case, added once, and removable', async () => {
    expect(await addSuppression(db, shop.id, 'Ada@Example.com', 'operator:test')).toMatchObject({
      recipient: 'Ada@example.com',
      reason: 'manual',
    })
    expect(await addSuppression(db, shop.id, 'ada@example.com', 'operator:test')).toMatchObject({
      recipient: 'Ada@example.com',
    })
    await expect(removeSuppression(db, other.id, 'ada@example.com', 'operator:test')).rejects.toThrow('not suppressed')
    expect(await removeSuppression(db, shop.id, 'ADA@example.com', 'operator:test')).toMatchObject({
      recipient: 'Ada@example.com',
    })
    expect(await all()).toEqual([])
  })

  test('an import names every wrong line and then writes nothing', async () => {
    const wrong = importSuppressions(db, shop.id, 'a@b.example\nnope\n\nc@d.example,because\n', 'operator:test')
    await expect(wrong).rejects.toThrow(/^Nothing was imported\.\nline 2: "nope" is not an address\nline 4: the reason/)
    expect(await all()).toEqual([])
  })

  test('a head line in which nothing is known is told as one, and lines of several columns behind it are not guessed at', async () => {
    const foreign = 'Kontakt,Grund,Datum\na@b.example,HardBounce,2026-01-01\n'
    await expect(importSuppressions(db, shop.id, foreign, 'operator:test')).rejects.toThrow(
      /^Nothing was imported\.\nline 1: there is no address in it, so it is taken for the head line, which must name the column of the addresses "recipient" \(or "email", "address"\); it names "Kontakt", "Grund", "Datum"$/,
    )
    const one = importSuppressions(db, shop.id, 'Kontakt\na@b.example\nnope@\n', 'operator:test')
    await expect(one).rejects.toThrow(/^Nothing was imported\.\nline 1: there is no address .*\nline 3: "nope@" is not/)
    expect(await all()).toEqual([])
  })

  test('a long file holds nobody else up while it is read', async () => {
    let turns = 0
    const others = setInterval(() => turns++, 1)
    const wrong = importSuppressions(db, shop.id, 'x\n'.repeat(300_000), 'operator:test')
    await expect(wrong).rejects.toThrow('and 299980 more')
    clearInterval(others)
    expect(turns).toBeGreaterThan(2)
  })

  test('a file of many rows is never held as rows: a small machine has room for it', async () => {
    const lines = Array.from({ length: 900_000 }, (_, n) => `${n.toString(36)}@b.co`)
    const child = new Worker(new URL('suppressions.test-child.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 8 },
      workerData: `${lines.join('\n')}\nwrong`,
    })
    const [said] = (await once(child, 'message')) as [string]
    expect(said).toBe('Nothing was imported.\nline 900001: "wrong" is not an address')
  })

  test('a cell that is far too long is refused unread: a small machine has room for it', async () => {
    const child = new Worker(new URL('suppressions.test-child.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 8 },
      workerData: `email,evidence\nq@b.example,"${'\x7f'.repeat(8_000_000)}"`,
    })
    const [said] = (await once(child, 'message')) as [string]
    expect(said).toMatch(/^Nothing was imported\.\nline 2: the evidence must have at most/)
  })

  test('a line that comes again far behind is counted once', async () => {
    const fifth = await createWorkspace(db, vault, 'Fifth', 'free')
    await addSuppression(db, fifth.id, 'old@b.example', 'operator:test')
    const many = Array.from({ length: limits.suppressionImportRows }, (_, n) => `r${n}@b.example`)
    const file = ['old@b.example', ...many, 'R0@b.example', 'r1@b.example', 'new@b.example'].join('\n')
    expect(await importSuppressions(db, fifth.id, file, 'operator:test')).toMatchObject({
      added: many.length + 1,
      alreadyThere: 1,
    })
  })

  test('an import that waits in a circle with another one is not the one that fails', async () => {
    const sixth = await createWorkspace(db, vault, 'Sixth', 'free')
    const page = Array.from({ length: limits.suppressionImportRows - 1 }, (_, n) => `r${n}@b.example`)
    let importing: Promise<unknown> | undefined
    const other = db.transaction(async (tx) => {
      await addSuppression(tx, sixth.id, 'z@b.example', 'operator:other')
      importing = importSuppressions(db, sixth.id, [...page, 'z@b.example'].join('\n'), 'operator:test')
      await expect.poll(() => db.run(waiting), { timeout: 30_000, interval: 10 }).toHaveLength(1)
      await addSuppression(tx, sixth.id, 'r0@b.example', 'operator:other')
    })
    // Whichever of the two PostgreSQL ends: nearly always the one that has waited longer.
    const otherEnded = await other.then(
      () => false,
      () => true,
    )
    const alreadyThere = otherEnded ? 0 : 2
    expect(await importing).toMatchObject({ added: page.length + 1 - alreadyThere, alreadyThere })
  })

  test('a large import is no long transaction, which would hold back the events of all: what is cut off is there with its author, and is repeated', async () => {
    const eighth = await createWorkspace(db, vault, 'Eighth', 'free')
    const page = Array.from({ length: limits.suppressionImportRows }, (_, n) => `r${n}@b.example`)
    const file = [...page, 'last@b.example'].join('\n')
    const go = () => importSuppressions(db, eighth.id, file, 'operator:test')
    await db.transaction(async (tx) => {
      await addSuppression(tx, eighth.id, 'last@b.example', 'operator:other')
      const cutOff = expect(go()).rejects.toThrow()
      await expect.poll(() => db.run(waiting), { timeout: 30_000, interval: 10 }).toHaveLength(1)
      const [told] = await db.run<{ many: number; target: string }>(
        `select (select count(*)::int from suppressions where workspace_id = $1) many, actor || ' ' || target target
           from audit_log where workspace_id = $1`,
        [eighth.id],
      )
      expect(told).toEqual({ many: page.length, target: `operator:test ${page.length} recipients` })
      await db.run(`select pg_terminate_backend(a.pid) ${waiting.slice('select'.length)}`)
      await cutOff
    })
    await removeSuppression(db, eighth.id, 'r1@b.example', 'operator:test')
    expect(await go()).toMatchObject({ added: 1, alreadyThere: page.length })
  })

  test('a workspace has so many suppressions and no more: an import that would add too many adds none', async () => {
    const ninth = await createWorkspace(db, vault, 'Ninth', 'free')
    const most = limits.suppressionImportRows + 2
    const page = Array.from({ length: limits.suppressionImportRows }, (_, n) => `r${n}@b.example`)
    const go = (...more: readonly string[]) =>
      importSuppressions(db, ninth.id, [...page, ...more].join('\n'), 'operator:test', { most })
    await expect(go('x@b.example', 'y@b.example', 'z@b.example')).rejects.toThrow(
      `at most ${most} suppressed recipients; this one has 0, and the file has ${most + 1} more.`,
    )
    expect(await db.run('select from suppressions where workspace_id = $1', [ninth.id])).toEqual([])
    expect(await go('x@b.example')).toMatchObject({ added: page.length + 1, alreadyThere: 0 })
    // Not lines count, but what they add.
    expect(await go('x@b.example', 'X@b.example', 'y@b.example')).toMatchObject({
      added: 1,
      alreadyThere: page.length + 1,
    })
    expect(await go('x@b.example')).toMatchObject({ added: 0, alreadyThere: page.length + 1 })
    await expect(go('z@b.example')).rejects.toThrow(`this one has ${most}, and the file has 1 more.`)
    // Nor one by one, for those who are there already go on being told so.
    const suppress = suppressing({ db }, most)
    await expect(suppress(by(ninth.id), 'z@b.example')).rejects.toThrow(`at most ${most} suppressed recipients.`)
    expect(await suppress(by(ninth.id), 'X@b.example')).toMatchObject({ recipient: 'x@b.example' })
    expect(await suppressing({ db }, most + 1)(by(ninth.id), 'z@b.example')).toMatchObject({ reason: 'manual' })
  })

  test('plain lists and CSV with a head come in, and what goes out comes in again', async () => {
    expect(await importSuppressions(db, shop.id, 'a@b.example\r\nA@B.example\r\n', 'operator:test')).toMatchObject({
      added: 1,
      alreadyThere: 0,
    })
    const csv = 'Reason,Name,Email\nhard_bounce,"Lovelace, Ada",z@b.example\n,,a@b.example\n'
    expect(await importSuppressions(db, shop.id, csv, 'operator:test')).toMatchObject({ added: 1, alreadyThere: 1 })
    expect(await all()).toEqual(['a@b.example manual', 'z@b.example hard_bounce'])
    const file = await exported(shop)
    expect(file.split('\r\n')[0]).toBe('recipient,reason,createdAt,sourceMessageId,rule,evidence')
    expect(await importSuppressions(db, other.id, file, 'operator:test')).toMatchObject({ added: 2, alreadyThere: 0 })
  })

  test('an export comes in with all that it tells: when, by which rule, on what evidence, after which message', async () => {
    const [from, to] = [
      await createWorkspace(db, vault, 'From', 'free'),
      await createWorkspace(db, vault, 'To', 'free'),
    ]
    await db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at) values
         ($1, 'a@b.example', 'A@b.example', 'hard_bounce', '0199f1c2-0000-7000-8000-0000000000aa', 'mailbox-does-not-exist', $2, '2026-03-01T12:00:00.123Z'),
         ($1, 'c@b.example', 'c@b.example', 'complaint', null, 'rule-of-another-release', '=1+1', '2026-04-01T12:00:00Z'),
         ($1, 'd@b.example', 'd@b.example', 'manual', null, null, null, '2026-05-01T12:00:00Z')`,
      [from.id, '550 5.1.1 "User" unknown,\nreally'],
    )
    const file = await exported(from)
    expect(await importSuppressions(db, to.id, file, 'operator:test')).toMatchObject({ added: 3, alreadyThere: 0 })
    expect(await exported(to)).toBe(file)
    const columns =
      'recipient, reason, source_message_id, rule, evidence, created_at from suppressions where workspace_id = $1 order by 1'
    expect(await db.run(`select ${columns}`, [to.id])).toEqual(await db.run(`select ${columns}`, [from.id]))
    // So what a rule did can be taken back here, too.
    const range = { rule: 'mailbox-does-not-exist', since: '2026-03-01', until: '2026-03-02' }
    expect(await undoRule(db, to.id, range, 'operator:test')).toEqual({ removed: 1 })
  })

  test('addresses that begin like a formula go out as words, and come in as they were', async () => {
    const [from, to] = [
      await createWorkspace(db, vault, 'Formulas', 'free'),
      await createWorkspace(db, vault, 'Formulas of others', 'free'),
    ]
    const addresses = [
      `=cmd|'/cx'!A0+@b.example`,
      '+15550100@b.example',
      '-x@b.example',
      `'=x@b.example`,
      `'x@b.example`,
    ]
    for (const address of addresses) await addSuppression(db, from.id, address, 'operator:test')
    const file = await exported(from)
    expect(file).not.toMatch(/^[=+-]/m)
    await importSuppressions(db, to.id, file, 'operator:test')
    const recipients = (id: string) =>
      db.run('select recipient from suppressions where workspace_id = $1 order by 1', [id])
    expect(await recipients(to.id)).toEqual(await recipients(from.id))
    expect(await recipients(to.id)).toHaveLength(addresses.length)
  })

  test.each([
    ['a reply as long as sessions keep it', `550 ${'x'.repeat(limits.replyTextCharactersMax)}`],
    ['words that begin like a formula behind an apostrophe', "'=see policy"],
    ['words with blanks at their ends', ' 550 no '],
    ['words of several lines', '550 5.1.1 a\n5.1.1 b'],
  ])('an export with %s comes in as it was', async (what, evidence) => {
    const [from, to] = [
      await createWorkspace(db, vault, `From ${what}`, 'free'),
      await createWorkspace(db, vault, `To ${what}`, 'free'),
    ]
    await db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, evidence) values ($1, 'a@b.example', 'a@b.example', 'hard_bounce', $2)`,
      [from.id, evidence],
    )
    await importSuppressions(db, to.id, await exported(from), 'operator:test')
    expect(await db.run('select evidence from suppressions where workspace_id = $1', [to.id])).toEqual([{ evidence }])
  })

  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  test.each([
    ['createdAt', tomorrow, `the date "${tomorrow}" must not be in the future`],
    ['createdAt', '0000-01-01', 'the date "0000-01-01" must not be before 1970'],
    ['createdAt', 'in March', 'the date "in March" must be written like 2026-11-01'],
    ['sourceMessageId', '17', 'the sourceMessageId must be the id of a message'],
    ['rule', 'r'.repeat(101), 'the rule must be a name'],
    ['rule', '"<script>"', 'the rule must be a name'],
    ['evidence', 'x'.repeat(limits.evidenceCharactersMax + 2), 'the evidence must have at most'],
  ])('an import whose %s is none writes nothing', async (column, value, words) => {
    const wrong = importSuppressions(db, shop.id, `email,${column}\nq@b.example,${value}\n`, 'operator:test')
    await expect(wrong).rejects.toThrow(`Nothing was imported.\nline 2: ${words}`)
    expect(await all()).not.toContain('q@b.example manual')
  })

  test('evidence of a stranger comes in without control characters', async () => {
    const seventh = await createWorkspace(db, vault, 'Seventh', 'free')
    await importSuppressions(db, seventh.id, 'email,evidence\nq@b.example,a\x1b[2Jb\0c\ud800\n', 'operator:test')
    const [row] = await db.run<{ evidence: string }>('select evidence from suppressions where workspace_id = $1', [
      seventh.id,
    ])
    expect(row?.evidence).toBe('a [2Jb c\ufffd')
  })

  test('everything that one rule did in a time can be taken back, and who did what is written down', async () => {
    const fourth = await createWorkspace(db, vault, 'Fourth', 'free')
    await db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, created_at)
       select $1, r || '@b.example', r || '@b.example', 'hard_bounce', rule, at::timestamptz from (values
         ('a', 'wrong-rule', '2026-11-01'), ('b', 'wrong-rule', '2026-11-02'), ('c', 'wrong-rule', '2026-11-03'),
         ('d', 'good-rule', '2026-11-02')) as v (r, rule, at)`,
      [fourth.id],
    )
    const range = { rule: 'wrong-rule', since: '2026-11-02', until: '2026-11-03T00:00:00Z' }
    expect(await undoRule(db, fourth.id, range, 'operator:ada')).toEqual({ removed: 1 })
    expect(await undoRule(db, other.id, { rule: 'wrong-rule', since: '2026-11-01' }, 'operator:ada')).toEqual({
      removed: 0,
    })
    for (const since of ['yesterday', '2026-02-30', '2026-11-31T00:00Z', '2026-11-01T24:00:00Z', '2026-11-01T08:30'])
      await expect(undoRule(db, fourth.id, { rule: 'x', since }, 'x')).rejects.toThrow('"since" must be')
    for (const since of ['2026-02-28', '2026-11-30T00:00Z', '2026-11-01T08:30:00.5+05:30'])
      expect(await undoRule(db, fourth.id, { rule: 'x', since }, 'x')).toEqual({ removed: 0 })
    // A range that can hold nothing was meant otherwise.
    for (const until of ['2026-11-02', '2026-11-01T23:00:00Z'])
      await expect(undoRule(db, fourth.id, { ...range, until }, 'x')).rejects.toThrow('"since" must be before "until".')
    await addSuppression(db, fourth.id, 'e@b.example', 'operator:eve')
    await addSuppression(db, fourth.id, 'E@b.example', 'operator:eve')
    await removeSuppression(db, fourth.id, 'd@b.example', 'operator:eve')
    await importSuppressions(db, fourth.id, 'f@b.example\ng@b.example\n', 'operator:eve')
    const left = listSuppressions(db, fourth.id)
    expect(await Array.fromAsync(left, ({ recipient, createdBy }) => `${recipient} ${createdBy}`)).toEqual([
      'a@b.example undefined',
      'c@b.example undefined',
      'e@b.example operator:eve',
      'f@b.example operator:eve',
      'g@b.example operator:eve',
    ])
    const audit = await db.run<{ line: string; facts: unknown }>(
      `select concat_ws(' ', actor, action, target) line, facts from audit_log where workspace_id = $1 order by at`,
      [fourth.id],
    )
    expect(audit.map(({ line }) => line)).toEqual([
      'operator:ada suppression.undone wrong-rule',
      'operator:eve suppression.added e@b.example',
      'operator:eve suppression.removed d@b.example',
      'operator:eve suppression.added 2 recipients',
    ])
    const until = '2026-11-03T00:00:00.000Z'
    expect(audit[0]?.facts).toEqual({ since: '2026-11-02T00:00:00.000Z', until, recipients: ['b@b.example'] })
    expect(audit[2]?.facts).toMatchObject({ rule: 'good-rule', since: '2026-11-02T00:00:00.000Z' })
  })

  test('however much a rule did, all of it is taken back, bite by bite, and nothing else', async () => {
    const wide = await createWorkspace(db, vault, 'Wide', 'free')
    const many = limits.suppressionsScannedMax + 4 * limits.suppressionImportRows
    await db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, created_at)
       select $1, n || '@b.example', n || '@b.example', 'hard_bounce', case n % 4 when 0 then 'good-rule' else 'wrong-rule' end, '2026-11-02'
         from generate_series(1, $2::integer) n`,
      [wide.id, many],
    )
    const undone = await undoRule(db, wide.id, { rule: 'wrong-rule', since: '2026-11-01' }, 'operator:ada')
    expect(undone).toEqual({ removed: (many * 3) / 4 })
    const left = await Array.fromAsync(listSuppressions(db, wide.id), ({ rule }) => rule)
    expect([left.length, new Set(left)]).toEqual([many / 4, new Set(['good-rule'])])
  })

  test('lists are read page by page without a gap', async () => {
    const many = limits.suppressionImportRows + 5
    const third = await createWorkspace(db, vault, 'Third', 'free')
    const file = Array.from({ length: many }, (_, n) => `r${n}@b.example`).join('\n')
    expect(await importSuppressions(db, third.id, file, 'operator:test')).toMatchObject({
      added: many,
      alreadyThere: 0,
    })
    expect(await Array.fromAsync(listSuppressions(db, third.id))).toHaveLength(many)
  })
})
