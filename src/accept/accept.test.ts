// Acceptance against a real database: what is refused, in which order, what is kept, and what is never said without a row.
import { connect as connectTo, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createSecretKey } from 'node:crypto'
import { join } from 'node:path'
import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import type { Client } from 'pg'
import { afterAll, afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { limits } from '../config.ts'
import { silentLog, type Log } from '../base/log.ts'
import type { MessageId } from '../domain/message.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import type { Accepted, MailSubmission, Submission } from '../domain/submission.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import type { AttachedFile } from '../mail/compose.ts'
import { makeToken } from '../mail/return-path.ts'
import { readBlob, stageBlob } from '../store/blobs.ts'
import { isDatabaseAway, openDatabase, type Db } from '../store/database.ts'
import { makeIds } from '../store/message-id.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { readRecord } from '../store/views/message-status.ts'
import { readTimeline } from '../store/views/message-timeline.ts'
import { makeAccept, makeAcceptMail, makeScanner, readQuota, type Accept, type AcceptTools } from './accept.ts'
import { acceptTools, patientScanner } from './accept.test-kit.ts'

const builtIn = patientScanner()
const away = makeScanner({ path: '/nonexistent/clamd.sock' })
const closings: (() => Promise<void> | void)[] = []

const world = await storeWorld()
const { host, port, user, password, database } = await world.session()
const connection = { host, port, user: user ?? '', password: password ?? '', database: database ?? '' }
const accept = makeAccept(await toolsOn(world.db))
afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close()
})
afterAll(() => Promise.all([builtIn.stop(), away.stop()]))

async function toolsOn(db: Db, changes: Partial<AcceptTools> = {}): Promise<AcceptTools> {
  const ids = makeIds(world.db)
  await ids.synchronize()
  ids.stop()
  const record: AcceptTools['readRecord'] = (workspace, id) => readRecord(world.db, workspace, id)
  return acceptTools(world, { ids, scanner: builtIn, readRecord: record, ...changes }, db)
}

const address = (text: string): EmailAddress => {
  const parsed = parseAddress(text)
  if (parsed === undefined) throw new Error(text)
  return parsed
}

function submission(sender: Sender, changes: Partial<Submission> = {}): Submission {
  return {
    workspaceId: sender.workspaceId,
    mailboxId: sender.mailboxId,
    source: 'rest',
    recipient: address('Ann@Example.org'),
    subject: 'Grüße',
    bodyText: 'Good morning.\n',
    attachments: [],
    ...changes,
  }
}
const file = (bytes: Buffer | string, filename = 'a.bin'): AttachedFile => ({
  filename,
  contentType: 'application/octet-stream',
  bytes: Buffer.from(bytes),
})
const eicar = file(['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR', '-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join(''), 'eicar.com')
const keyed = (key: string, bodyHash = 'hash of the body') => ({ idempotency: { key, bodyHash } })

const accepted = (answer: Accepted | Refusal): Accepted => {
  if (isRefusal(answer)) throw new Error(`refused: ${answer.code}`)
  return answer
}
const codeOf = (answer: object) => (isRefusal(answer) ? answer.code : 'accepted')
const suppress = (sender: Sender) =>
  world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual')`,
    [sender.workspaceId, 'ann@example.org'],
  )
/** Messages, queue rows, contents, charges and keys of a workspace. */
const traces = async (sender: Sender): Promise<number[]> => {
  const [row] = await world.db.run<Record<string, number>>(
    `select (select count(*) from messages where workspace_id = $1)::integer messages,
            (select count(*) from outbound where workspace_id = $1)::integer queue,
            (select count(*) from contents where workspace_id = $1)::integer contents,
            (select month_count from usage where workspace_id = $1) charged,
            (select count(*) from idempotency_keys where workspace_id = $1)::integer keys`,
    [sender.workspaceId],
  )
  return Object.values(row ?? {})
}

describe('the order of the checks', () => {
  // Each row has everything wrong that stands below it too.
  const rows = [
    ['idempotency_key_reused', { key: true, mailbox: true, suppressed: true, quota: true, infected: true }],
    ['mailbox_not_active', { mailbox: true, suppressed: true, quota: true, infected: true }],
    ['recipient_suppressed', { suppressed: true, quota: true, infected: true }],
    ['hourly_limit_reached', { quota: true, infected: true }],
    ['attachment_infected', { infected: true }],
    ['accepted', {}],
  ] as const satisfies [string, Partial<Record<'key' | 'mailbox' | 'suppressed' | 'quota' | 'infected', true>>][]

  test.each(rows)('%s', async (code, wrong: Partial<Record<string, true>>) => {
    const sender = await world.sender({ hourly: 1 })
    if (wrong['key'] === true) accepted(await accept(submission(sender, keyed('k', 'another body'))))
    else if (wrong['quota'] === true) accepted(await accept(submission(sender)))
    if (wrong['suppressed'] === true) await suppress(sender)
    if (wrong['mailbox'] === true)
      await world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [sender.mailboxId])
    const before = await traces(sender)
    const answer = await accept(
      submission(sender, {
        attachments: [file('fine'), wrong['infected'] === true ? eicar : file('fine too')],
        ...(wrong['key'] === true && keyed('k')),
      }),
    )
    expect(codeOf(answer)).toBe(code)
    if (code !== 'accepted') expect(await traces(sender)).toEqual(before)
    if (isRefusal(answer) && code === 'attachment_infected') expect(answer.field).toBe('attachments.1')
    // Whoever has come so far is told the windows, whatever the answer (decisions D).
    const remaining = wrong['quota'] === true || code === 'accepted' ? 0 : 1
    expect(answer.quota).toMatchObject([{ window: 'hour', limit: 1, remaining }])
    if (isRefusal(answer) && code === 'hourly_limit_reached') expect(answer.retryAfterSeconds).toBeGreaterThan(0)
  })

  test('whoever did not come so far is told the same windows', async () => {
    const sender = await world.sender({ hourly: 3, daily: 5 })
    const { quota } = accepted(await accept(submission(sender)))
    const windowsOf = (states: Accepted['quota']) =>
      states.map(({ window, limit, remaining }) => [window, limit, remaining])
    expect(windowsOf(quota)).toEqual([
      ['hour', 3, 2],
      ['day', 5, 4],
    ])
    expect(windowsOf(await readQuota(world.db, sender.workspaceId))).toEqual(windowsOf(quota))
    expect(await readQuota(world.db, crypto.randomUUID() as typeof sender.workspaceId)).toEqual([])
  })

  test.each([
    [{ hourly: 0 }, 'hourly_limit_reached', 'no messages in 60 minutes'],
    [{ daily: 0 }, 'daily_limit_reached', 'no messages a day'],
    [{ monthly: 0 }, 'monthly_limit_reached', 'no messages a month'],
  ])('a plan with %j is told for what it is, and not for a limit that turns', async (plan, code, words) => {
    const sender = await world.sender({ hourly: 1, daily: 1, monthly: 1 })
    accepted(await accept(submission(sender)))
    await world.db.run(
      `update plans set hourly = coalesce($2, hourly), daily = coalesce($3, daily), monthly = coalesce($4, monthly)
        where name = (select w.plan from workspaces w where w.id = $1)`,
      [sender.workspaceId, ...['hourly', 'daily', 'monthly'].map((name) => (plan as Record<string, number>)[name])],
    )
    const answer = await accept(submission(sender))
    expect(answer).toMatchObject({ code, words: expect.stringContaining(words) as string })
    expect(answer).not.toMatchObject({ words: expect.stringMatching(/try again|turns/) as string })
    if (isRefusal(answer)) expect(answer.retryAfterSeconds).toBeGreaterThan(0)
  })

  test('the window to wait for longest is the one that is told', async () => {
    const sender = await world.sender({ hourly: 1, daily: 1, monthly: 1 })
    accepted(await accept(submission(sender)))
    expect(codeOf(await accept(submission(sender)))).toBe('monthly_limit_reached')
  })
})

describe('an idempotency key', () => {
  test('50 at once with the same key and body: one message, one charge, one id for all', async () => {
    const sender = await world.sender({ hourly: 5 })
    const answers = await Promise.all(Array.from({ length: 50 }, () => accept(submission(sender, keyed('order 7')))))
    const told = answers.map(accepted)
    expect(new Set(told.map(({ message }) => message.id)).size).toBe(1)
    expect(told.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(await traces(sender)).toEqual([1, 1, 1, 1, 1])
  })

  test('50 at once of which none can be accepted: every one hears why, and none is charged', async () => {
    const sender = await world.sender()
    await suppress(sender)
    const answers = await Promise.all(Array.from({ length: 50 }, () => accept(submission(sender, keyed('order 8')))))
    expect(new Set(answers.map(codeOf))).toEqual(new Set(['recipient_suppressed']))
    expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
  })

  test('the repeat is told what the first was told, whatever has happened since', async () => {
    await world.setClock(new Date().toISOString()) // the seconds until the quota's window turns are told too
    onTestFinished(() => world.setClock())
    const sender = await world.sender({ daily: 1 })
    const sent = submission(sender, {
      ...keyed('k'),
      metadata: { order: '7', a: 'b' },
      expiresAt: new Date(Date.now() + 3600_000),
      attachments: [file('x')],
    })
    const first = accepted(await accept(sent))
    await suppress(sender)
    await world.db.run(`update messages set status = 'sending', error_message = 'x' where id = $1`, [first.message.id])
    const repeat = accepted(await accept(sent))
    expect(repeat).toEqual({ ...first, replayed: true })
    expect(Object.keys(repeat.message.metadata ?? {})).toEqual(['order', 'a'])
  })

  test('the repeat comes through when `expiresAt` has passed meanwhile; nothing new does, and nothing is charged', async () => {
    const sender = await world.sender()
    const passed = { expiresAt: new Date(Date.now() - 1_000) }
    for (const change of [{}, { attachments: [file('x')] }]) {
      const key = `in time, ${Object.keys(change).length}`
      const first = accepted(await accept(submission(sender, { ...keyed(key), ...change })))
      expect(await accept(submission(sender, { ...keyed(key), ...passed, ...change }))).toMatchObject({
        message: { id: first.message.id },
        replayed: true,
      })
      const late = [keyed(`${key}, too late`), {}, keyed(key, 'another body')]
      for (const wish of late)
        expect(await accept(submission(sender, { ...wish, ...passed, ...change }))).toMatchObject({
          code: 'invalid_request',
          field: 'expiresAt',
        })
    }
    expect(await traces(sender)).toEqual([2, 2, 2, 2, 2])
  })

  test('whether it has expired is asked of the clock of the ids, which is the database’s', async () => {
    const sender = await world.sender()
    const tools = await toolsOn(world.db)
    const anHourBehind = makeAccept({ ...tools, ids: { ...tools.ids, now: () => Date.now() - 3600_000 } })
    const expiresAt = new Date(Date.now() - 60_000)
    expect(await accept(submission(sender, { expiresAt }))).toMatchObject({ field: 'expiresAt' })
    expect(await anHourBehind(submission(sender, { expiresAt }))).toMatchObject({ replayed: false })
  })

  test('no id is made before its clock is sure: that of the machine may have been set', async () => {
    const tools = await toolsOn(world.db)
    const asked: string[] = []
    const ids = {
      ...tools.ids,
      sure: () => new Promise<void>((resolve) => setImmediate(resolve)).then(() => void asked.push('sure')),
      next: () => (asked.push('next'), tools.ids.next()),
    }
    accepted(await makeAccept({ ...tools, ids })(submission(await world.sender())))
    expect(asked).toEqual(['sure', 'next'])
  })

  test('with another body: refused, also while the first is under way', async () => {
    const sender = await world.sender()
    const answers = await Promise.all([
      accept(submission(sender, keyed('k', 'one'))),
      accept(submission(sender, keyed('k', 'two'))),
    ])
    expect(answers.map(codeOf)).toEqual(['accepted', 'idempotency_key_reused'])
    expect(await traces(sender)).toEqual([1, 1, 1, 1, 1])
  })

  test('is not burned by a refusal', async () => {
    const sender = await world.sender()
    await suppress(sender)
    expect(codeOf(await accept(submission(sender, keyed('k'))))).toBe('recipient_suppressed')
    await world.db.run('delete from suppressions where workspace_id = $1', [sender.workspaceId])
    const answer = accepted(await accept(submission(sender, keyed('k'))))
    expect(answer.replayed).toBe(false)
  })

  describe('whose message has no record any more', () => {
    const gone = async (id: MessageId) => {
      await world.db.run('delete from outbound where message_id = $1', [id])
      await world.db.run('delete from messages where id = $1', [id])
    }

    test.each([
      ['a text', {}],
      ['with a file, which is looked up before its scan', { attachments: [file('x')] }],
    ])('does not count: %s', async (_, content) => {
      const sender = await world.sender()
      const first = accepted(await accept(submission(sender, { ...keyed('k'), ...content })))
      await gone(first.message.id)
      const second = accepted(await accept(submission(sender, { ...keyed('k'), ...content })))
      expect(second.replayed).toBe(false)
      expect(second.message.id).not.toBe(first.message.id)
      expect(accepted(await accept(submission(sender, { ...keyed('k'), ...content })))).toEqual({
        ...second,
        replayed: true,
      })
      await gone(second.message.id)
      const other = accepted(await accept(submission(sender, { ...keyed('k', 'another body'), ...content })))
      expect(other.replayed).toBe(false)
      expect(await traces(sender)).toEqual([1, 1, 3, 3, 1])
    })

    test('is refused for what everything new is refused for', async () => {
      const sender = await world.sender({ daily: 1 })
      const first = accepted(await accept(submission(sender, keyed('k'))))
      await gone(first.message.id)
      expect(codeOf(await accept(submission(sender, keyed('k'))))).toBe('daily_limit_reached')
      const late = { ...keyed('late'), expiresAt: new Date(Date.now() - 1_000) }
      const other = await world.sender()
      const { message } = accepted(await accept(submission(other, keyed('late'))))
      await gone(message.id)
      expect(await accept(submission(other, late))).toMatchObject({ code: 'invalid_request', field: 'expiresAt' })
      expect(await traces(other)).toEqual([0, 0, 1, 1, 0])
    })

    test('makes one message, however many come at once on two nodes', async () => {
      const sender = await world.sender()
      const first = accepted(await accept(submission(sender, keyed('k'))))
      await gone(first.message.id)
      const nodes = [accept, makeAccept(await toolsOn(world.anotherNode()))]
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, at) => (nodes[at % 2] as Accept)(submission(sender, keyed('k')))),
      )
      expect(new Set(answers.map((answer) => accepted(answer).message.id)).size).toBe(1)
      expect(await traces(sender)).toEqual([1, 1, 2, 2, 1])
    })

    test('counts where only the reader does not find it: a fault, and no second message', async () => {
      const sender = await world.sender()
      accepted(await accept(submission(sender, keyed('k'))))
      const blind = makeAccept(await toolsOn(world.db, { readRecord: () => Promise.resolve(undefined) }))
      await expect(blind(submission(sender, keyed('k')))).rejects.toThrow('cannot be read')
      expect(await traces(sender)).toEqual([1, 1, 1, 1, 1])
    })
  })

  test('belongs to one face and one workspace', async () => {
    const [one, other] = [await world.sender(), await world.sender()]
    const answers = await Promise.all([
      accept(submission(one, keyed('k'))),
      accept(submission(one, { ...keyed('k'), source: 'smtp' })),
      accept(submission(other, keyed('k'))),
    ])
    expect(new Set(answers.map((answer) => accepted(answer).message.id)).size).toBe(3)
  })

  test('in progress for longer than anybody should wait: come back in a second', { timeout: 60_000 }, async () => {
    const sender = await world.sender()
    const db = world.anotherNode()
    let go: () => void = () => undefined
    const held = new Promise<void>((resolve) => (go = resolve))
    const stage = async (id: string, bytes: Buffer) => {
      await held // big content, over a slow line to the database
      await stageBlob(world.db, id, bytes)
    }
    const patient = makeAccept(await toolsOn(db, { stage }))
    const big = { ...keyed('k'), bodyText: 'x'.repeat(100_000) }
    const first = patient(submission(sender, big))
    const began = performance.now()
    const second = await patient(submission(sender, big))
    expect(codeOf(second)).toBe('idempotency_in_progress')
    expect(second).toMatchObject({ retryAfterSeconds: 1 })
    expect(performance.now() - began).toBeGreaterThan(limits.idempotencyWaitMs - 50)
    go()
    expect(codeOf(await first)).toBe('accepted')
    expect(accepted(await patient(submission(sender, big))).replayed).toBe(true)
    await world.db.run('delete from staged_blobs') // what the repeat staged for nothing, as housekeeping would
  })

  test('in progress here for as long, and accepted by another node meanwhile: found', { timeout: 60_000 }, async () => {
    const sender = await world.sender()
    const line = Promise.withResolvers<void>()
    const stage = async (id: string, bytes: Buffer) => {
      await line.promise
      await stageBlob(world.db, id, bytes)
    }
    const slow = makeAccept(await toolsOn(world.anotherNode(), { stage }))
    const big = submission(sender, { ...keyed('k'), bodyText: 'x'.repeat(100_000) })
    const [first, second, other] = [big, big, { ...big, ...keyed('k', 'another body') }].map((each) => slow(each))
    const elsewhere = accepted(await accept(big))
    expect(await second).toEqual({ ...elsewhere, replayed: true })
    expect(codeOf((await other) ?? {})).toBe('idempotency_key_reused')
    line.resolve()
    expect(await first).toEqual({ ...elsewhere, replayed: true })
    expect(await traces(sender)).toEqual([1, 1, 1, 1, 1])
    await world.db.run('delete from staged_blobs')
  })
})

describe('attachments', () => {
  const blobsOf = async (id: MessageId): Promise<(Buffer | undefined)[]> => {
    const rows = await world.db.run<{ blob_id: string }>(
      'select blob_id from attachments where message_id = $1 order by position',
      [id],
    )
    return Promise.all(rows.map(({ blob_id: blob }) => readBlob(world.db, blob)))
  }
  const every = Buffer.from(Array.from({ length: 256 }, (_, at) => at))

  test.each([
    ['small: in the admission itself', [every, Buffer.alloc(0)], 'short'],
    ['big: staged', [Buffer.alloc(3 * limits.contentChunkBytes + 7, every), Buffer.alloc(0)], 'short'],
    ['a big text, staged, with letters over the chunks’ edges', [], 'é€😀'.repeat(limits.contentChunkBytes / 4)],
    ['both big', [Buffer.alloc(limits.contentChunkBytes, every)], 'ü'.repeat(limits.contentInlineBytesMax + 1)],
  ])('%s: read back byte for byte', async (_, contents, bodyText) => {
    const sender = await world.sender()
    const answer = accepted(
      await accept(submission(sender, { bodyText, attachments: contents.map((bytes) => file(bytes)) })),
    )
    const record = await readRecord(world.db, sender.workspaceId, answer.message.id)
    expect(record?.bodyText === bodyText).toBe(true)
    expect({ ...record, bodyText: '' }).toEqual({ ...answer.message, bodyText: '' })
    const kept = await blobsOf(answer.message.id)
    expect(kept.map((bytes, at) => bytes?.equals(contents[at] as Buffer))).toEqual(contents.map(() => true))
    expect(await world.value('select count(*)::integer from staged_blobs')).toBe(0)
  })

  test.each([
    ['infected', builtIn, eicar, 'attachment_infected'],
    ['beyond what is examined', builtIn, file(gzipSync(Buffer.alloc(200_000_000))), 'attachment_infected'],
    ['a scanner that is down', away, file('clean'), 'scanner_unavailable'],
  ])('%s: nothing stored, nothing charged, the key still free', async (_, scanner, last, code) => {
    const sender = await world.sender()
    const faults: string[] = []
    const log: Log = { ...silentLog, fault: (what) => void faults.push(what) }
    const strict = makeAccept(await toolsOn(world.db, { scanner, log }))
    const sent = submission(sender, { ...keyed('k'), attachments: [file(Buffer.alloc(100_000)), last] })
    const blobs = await world.value('select count(*)::integer from blobs')
    const answer = await strict(sent)
    expect(codeOf(answer)).toBe(code)
    expect('retryAfterSeconds' in answer).toBe(code === 'scanner_unavailable')
    expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
    expect(await world.value('select count(*)::integer from blobs')).toBe(blobs)
    expect(faults).toEqual(code === 'scanner_unavailable' ? ['scanner'] : [])
    // Without an attachment nobody asks the scanner.
    expect(codeOf(await strict(submission(sender, keyed('k'))))).toBe('accepted')
  })

  test('the verdict is kept with the message: who looked, and what could not be looked into', async () => {
    const sender = await world.sender()
    const { message } = accepted(await accept(submission(sender, { attachments: [file('clean')] })))
    const without = accepted(await accept(submission(sender)))
    const timelines = [message, without.message].map(({ id }) =>
      readTimeline(world.db, sender.workspaceId, id, { webhooks: true }),
    )
    expect((await Promise.all(timelines)).map((timeline) => timeline?.scan)).toEqual([
      { verdict: 'clean', engine: 'built-in policy checks' },
      undefined,
    ])
  })

  test('scans wait by workspace: one that sends much does not hold up the others', async () => {
    const owners: (string | undefined)[] = []
    const scanner: typeof builtIn = {
      ...builtIn,
      clears: (text) => builtIn.clears(text),
      scan: (files, owner) => (owners.push(owner), builtIn.scan(files, owner)),
    }
    const sender = await world.sender()
    await makeAccept(await toolsOn(world.db, { scanner }))(submission(sender, { attachments: [file('clean')] }))
    expect(owners).toEqual([sender.workspaceId])
  })

  test('the refusal names the file and says what to do', async () => {
    const answer = await accept(submission(await world.sender(), { attachments: [file('clean'), eicar] }))
    expect(answer).toMatchObject({
      field: 'attachments.1',
      words: '"attachments.1" (eicar.com) contains malware (Eicar-Test-Signature); nothing was accepted. Remove it.',
    })
  })
})

test('mail to a return path is refused: it takes reports, and this would be mail about mail', async () => {
  const sender = await world.sender()
  const token = makeToken({ id: 'a', secret: createSecretKey(Buffer.alloc(32)) }, world.nextId(), sender.workspaceId)
  const answer = await accept(submission(sender, { recipient: address(`${token}@bounces.example.org`) }))
  expect(answer).toMatchObject({ code: 'invalid_request', field: 'recipient' })
  expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
})

describe('the outcome of the commit', () => {
  test('the server ends the session before the commit: a fault, and no row', async () => {
    const sender = await world.sender()
    const db = world.anotherNode()
    const answers = makeAccept(await toolsOn(db))
    const holder = await world.holding('select from usage where workspace_id = $1 for update', [sender.workspaceId])
    const answer = answers(submission(sender)).then(codeOf, (error: unknown) => error)
    await terminate(await waitingFor(holder))
    expect(isDatabaseAway(await answer)).toBe(true)
    await holder.query('rollback')
    expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
    expect(codeOf(await answers(submission(sender)))).toBe('accepted') // by itself, on a new connection
  })

  test('a lock holds it up for longer than the caller waits: a fault, and nothing is accepted when the lock is gone', async () => {
    const sender = await world.sender()
    const tools = await toolsOn(world.anotherNode())
    const holder = await world.holding('select from usage where workspace_id = $1 for update', [sender.workspaceId])
    await expect(makeAccept(tools)(submission(sender)).then(codeOf)).rejects.toSatisfy(isDatabaseAway)
    await waitingFor(holder) // the statement is still under way
    await holder.query('rollback')
    await tools.admitter.quiet()
    expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
  })

  test('the line is cut after the commit, before its answer: accepted, because the row is found', async () => {
    const sender = await world.sender({ daily: 10 })
    const { accept: through, proxy } = await behindProxy()
    accepted(await through(submission(sender)))
    proxy.cutAtNextAnswer()
    const sent = submission(sender, keyed('k'))
    const answer = accepted(await through(sent))
    expect(proxy.cuts).toBe(1)
    expect(await readRecord(world.db, sender.workspaceId, answer.message.id)).toEqual(answer.message)
    expect(await traces(sender)).toEqual([2, 2, 2, 2, 1])
    expect(accepted(await through(sent)).message.id).toBe(answer.message.id)
  })

  test('the line is cut, and the record cannot be read either: never a yes', async () => {
    const sender = await world.sender()
    const { accept: through, proxy } = await behindProxy(() => Promise.reject(new Error('the reader is away too')))
    accepted(await through(submission(sender)))
    proxy.cutAtNextAnswer()
    await expect(through(submission(sender)).then(codeOf)).rejects.toSatisfy(isDatabaseAway)
    // It is kept all the same: who asks again with its key would find it.
    expect(await traces(sender)).toEqual([2, 2, 2, 2, 0])
  })

  test('no database: a fault that says so, for text and for staged content', async () => {
    const sender = await world.sender()
    const db = openDatabase(
      { url: 'postgres://nobody@127.0.0.1:1/none' },
      { name: 'test', connectionsMax: 1, answerMs: 1_000 },
    )
    closings.push(() => db.close())
    const nowhere = makeAccept(await toolsOn(db))
    await expect(nowhere(submission(sender))).rejects.toSatisfy(isDatabaseAway)
    await expect(nowhere(submission(sender, { bodyText: 'x'.repeat(100_000) }))).rejects.toSatisfy(isDatabaseAway)
    await expect(nowhere(submission(sender, keyed('k')))).rejects.toSatisfy(isDatabaseAway)
    expect(await traces(sender)).toEqual([0, 0, 0, 0, 0])
  })

  test('of a mail for two: found where the line is cut behind the commit; no yes where it cannot be read, or is not there', async () => {
    const sender = await world.sender()
    const mail = (): MailSubmission => ({
      workspaceId: sender.workspaceId,
      mailboxId: sender.mailboxId,
      recipients: ['ann', 'bob'].map((local) => address(`${local}@example.org`)),
      scanned: Buffer.from('Subject: x\r\n\r\ny\r\n'),
      plainText: Buffer.from('y\r\n'),
      content: Buffer.from('Subject: x\r\n\r\ny\r\n'),
      lacks: [],
      senderDomain: 'w.example',
      subject: 'x',
      until: performance.now() + 600_000,
    })
    const { acceptMail, proxy } = await behindProxy()
    await acceptMail(mail())
    proxy.cutAtNextAnswer()
    const answer = await acceptMail(mail())
    if (isRefusal(answer)) throw new Error(`refused: ${answer.code}`)
    expect([answer.replayed, answer.ids.length, proxy.cuts]).toEqual([false, 2, 1])
    for (const id of answer.ids) expect(await readRecord(world.db, sender.workspaceId, id)).toMatchObject({ id })
    expect(await traces(sender)).toEqual([4, 4, 4, 4, 0])

    const blind = await behindProxy(() => Promise.reject(new Error('the reader is away too')))
    await blind.acceptMail(mail())
    blind.proxy.cutAtNextAnswer()
    await expect(blind.acceptMail(mail()).then(codeOf)).rejects.toSatisfy(isDatabaseAway)

    await proxy.stop()
    const before = await traces(sender)
    await expect(acceptMail(mail()).then(codeOf)).rejects.toSatisfy(isDatabaseAway)
    expect(await traces(sender)).toEqual(before)
  })

  test('50 with one key behind a winner that fails: nobody hangs, nobody is told yes', async () => {
    const sender = await world.sender()
    const db = openDatabase(
      { url: 'postgres://nobody@127.0.0.1:1/none' },
      { name: 'test', connectionsMax: 1, answerMs: 1_000 },
    )
    closings.push(() => db.close())
    const nowhere = makeAccept(await toolsOn(db))
    const ends = await Promise.allSettled(Array.from({ length: 50 }, () => nowhere(submission(sender, keyed('k')))))
    expect(new Set(ends.map(({ status }) => status))).toEqual(new Set(['rejected']))
  })
})

/** The session that waits for a lock of this one. */
async function waitingFor(holder: Client): Promise<number> {
  const pid = (holder as unknown as { processID: number }).processID
  for (;;) {
    const [row] = await world.db.run<{ pid: number }>(
      'select pid from pg_stat_activity where $1::integer = any (pg_blocking_pids(pid))',
      [pid],
    )
    if (row !== undefined) return row.pid
  }
}
const terminate = (pid: number) => world.db.run('select pg_terminate_backend($1)', [pid])

/** Acceptance whose admissions go through a proxy. */
async function behindProxy(read?: () => Promise<never>) {
  const proxy = await startProxy()
  const db = openDatabase(
    { ...connection, host: '127.0.0.1', port: proxy.port },
    { name: 'proxied', connectionsMax: 1, answerMs: 5_000 },
  )
  closings.push(proxy.stop, () => db.close())
  const stage = (id: string, bytes: Buffer) => stageBlob(world.db, id, bytes)
  const tools = await toolsOn(db, { stage, ...(read !== undefined && { readRecord: read }) })
  return { accept: makeAccept(tools), acceptMail: makeAcceptMail(tools), proxy }
}

/** Forwards to PostgreSQL; on demand it swallows the next answer and cuts the line instead, when the server has committed. */
async function startProxy() {
  const { host, port } = connection
  const sockets = new Set<Socket>()
  let cutting = false
  const proxy = {
    port: 0,
    cuts: 0,
    cutAtNextAnswer: () => {
      cutting = true
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
  const server: Server = createServer((client) => {
    const upstream = connectTo(join(host, `.s.PGSQL.${port}`))
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    }
    client.pipe(upstream)
    upstream.on('data', (chunk: Buffer) => {
      // ReadyForQuery, idle: the statement's own transaction has been committed.
      if (cutting && chunk.includes(Buffer.from([0x5a, 0, 0, 0, 5, 0x49]))) {
        cutting = false
        proxy.cuts++
        client.destroy()
        upstream.destroy()
      } else if (!cutting) client.write(chunk)
    })
    client.on('close', () => upstream.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return Object.assign(proxy, { port: (server.address() as AddressInfo).port })
}
