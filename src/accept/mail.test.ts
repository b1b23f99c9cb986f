// A mail for several recipients against a real database: all or none, the quota shared with REST, the same mail again, and never too late.
import { afterAll, describe, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import type { AcceptedMail, MailSubmission } from '../domain/submission.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { makeAdmitter, type AdmissionRow } from '../store/admit.ts'
import { readBlob } from '../store/blobs.ts'
import { makeIds } from '../store/message-id.ts'
import { databaseNow } from '../store/database.ts'
import { sweepRepeats } from '../store/repeats.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { readRecord } from '../store/views/message-status.ts'
import { makeAccept, makeAcceptMail, type AcceptTools } from './accept.ts'
import { acceptTools } from './accept.test-kit.ts'

const world = await storeWorld()
const ids = makeIds(world.db)
await ids.synchronize()
ids.stop()
const tools = acceptTools(world, { ids })
const acceptMail = makeAcceptMail(tools)
const accept = makeAccept({ ...tools, admitter: makeAdmitter(world.anotherNode()) })
afterAll(() => tools.scanner.stop())

const address = (text: string): EmailAddress => {
  const parsed = parseAddress(text)
  if (parsed === undefined) throw new Error(text)
  return parsed
}
const plain = Buffer.from('Good morning\r\n')
/** The beginning of a mail with a text and something behind it. */
const parted = (text: string) =>
  Buffer.from(
    `From: post@w.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n${text}\r\n\r\n--b\r\nContent-Type: image/png\r\n\r\n`,
  )
const mailTo = (
  sender: Sender,
  recipients: readonly string[],
  changes: Partial<MailSubmission> = {},
): MailSubmission => ({
  workspaceId: sender.workspaceId,
  mailboxId: sender.mailboxId,
  recipients: recipients.map(address),
  scanned: plain,
  ...(changes.scanned === undefined && { plainText: plain }),
  content: Buffer.from(
    'From: post@w.example\r\nSubject: Hello\r\nDate: x\r\nMessage-ID: <a@b>\r\n\r\nGood morning\r\n',
  ),
  lacks: [],
  senderDomain: 'w.example',
  subject: 'Hello',
  until: performance.now() + 600_000,
  ...changes,
})
const names = (count: number) => Array.from({ length: count }, (_, at) => `r${at}@receiver.test`)
const taken = (answer: AcceptedMail | Refusal): AcceptedMail => {
  if (isRefusal(answer)) throw new Error(`refused: ${answer.code}`)
  return answer
}
const codeOf = (answer: object) => (isRefusal(answer) ? answer.code : 'accepted')
const charged = (sender: Sender) =>
  world.value<number>('select month_count from usage where workspace_id = $1', [sender.workspaceId])
const kept = (sender: Sender) =>
  world.value<number>('select count(*)::integer from outbound where workspace_id = $1', [sender.workspaceId])
const repeat = (key: string, keptMs: number = limits.repeatKeptMs): Partial<MailSubmission> => ({
  idempotency: { kind: 'repeat', key, hash: key, keptMs },
})

describe('all or none', () => {
  test('each recipient is a message of its own, with the text read out of the mail', async () => {
    const sender = await world.sender()
    const { ids } = taken(await acceptMail(mailTo(sender, names(3))))
    expect([await charged(sender), await kept(sender), new Set(ids).size]).toEqual([3, 3, 3])
    for (const [at, id] of ids.entries())
      expect(await readRecord(world.db, sender.workspaceId, id)).toMatchObject({
        recipient: `r${at}@receiver.test`,
        bodyText: 'Good morning\n',
        subject: 'Hello',
        status: 'queued',
      })
  })

  test('more than what is left of the quota: none, and what is smaller still fits', async () => {
    const sender = await world.sender({ hourly: 5 })
    const answers = await Promise.all([
      acceptMail(mailTo(sender, names(3))),
      acceptMail(mailTo(sender, names(4))),
      acceptMail(mailTo(sender, names(2))),
      acceptMail(mailTo(sender, names(1))),
    ])
    expect(answers.map(codeOf)).toEqual(['accepted', 'hourly_limit_reached', 'accepted', 'hourly_limit_reached'])
    expect([await charged(sender), await kept(sender)]).toEqual([5, 5])
  })

  test('what comes over REST behind a group that does not fit gets the place that the group leaves', async () => {
    const sender = await world.sender({ hourly: 2 })
    // They come to the admission in this order, whoever was ready first.
    const { admitter } = tools
    const turns = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
    let many = 0
    const ordered = {
      ...tools,
      admitter: {
        ...admitter,
        admit: async (row: AdmissionRow) => {
          const isFirst = many++ === 0
          if (!isFirst) await turns[1].promise
          const answer = admitter.admit(row)
          if (isFirst) turns[0].resolve()
          return answer
        },
        admitGroup: async (rows: readonly AdmissionRow[], until: number) => {
          await turns[0].promise
          const answer = admitter.admitGroup(rows, until)
          turns[1].resolve()
          return answer
        },
      },
    }
    const sameNode = makeAccept(ordered)
    const rest = () =>
      sameNode({
        workspaceId: sender.workspaceId,
        mailboxId: sender.mailboxId,
        source: 'rest',
        recipient: address('one@receiver.test'),
        subject: 'Hello',
        bodyText: 'Hello',
        attachments: [],
      })
    const answers = await Promise.all([rest(), makeAcceptMail(ordered)(mailTo(sender, names(2))), rest()])
    expect(answers.map(codeOf)).toEqual(['accepted', 'hourly_limit_reached', 'accepted'])
    expect([await charged(sender), await kept(sender)]).toEqual([2, 2])
    expect(codeOf(await rest())).toBe('hourly_limit_reached')
  })

  test('more than what is left of the quota is refused as that, although something is left', async () => {
    const sender = await world.sender({ hourly: 5 })
    taken(await acceptMail(mailTo(sender, names(3))))
    for (const how of [{}, repeat('too many')])
      expect(codeOf(await acceptMail(mailTo(sender, names(3), how)))).toBe('hourly_limit_reached')
    expect([await charged(sender), await kept(sender)]).toEqual([3, 3])
  })

  test('one suppressed recipient: none', async () => {
    const sender = await world.sender()
    await world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual')`,
      [sender.workspaceId, 'r1@receiver.test'],
    )
    for (const how of [{}, repeat('not to all')])
      expect(codeOf(await acceptMail(mailTo(sender, names(3), how)))).toBe('recipient_suppressed')
    expect([await charged(sender), await kept(sender)]).toEqual([0, 0])
  })

  test.each(['hourly', 'daily', 'monthly'])(
    'REST and SMTP at once on what is left of the %s limit: exactly that',
    async (window) => {
      const sender = await world.sender({ [window]: 7 })
      const rest = () =>
        accept({
          workspaceId: sender.workspaceId,
          mailboxId: sender.mailboxId,
          source: 'rest',
          recipient: address('ann@receiver.test'),
          subject: 'x',
          bodyText: 'x',
          attachments: [],
        })
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? rest() : acceptMail(mailTo(sender, names(1))))),
      )
      expect(answers.filter((answer) => !isRefusal(answer))).toHaveLength(7)
      expect([await charged(sender), await kept(sender)]).toEqual([7, 7])
    },
  )

  test('where the clock of the machine was set, the ids are still of the database’s', async () => {
    const ids = makeIds(world.db)
    await ids.synchronize()
    ids.stop()
    const here = Date.now
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => here() + 86_400_000)
    try {
      const [id = ''] = taken(await makeAcceptMail({ ...tools, ids })(mailTo(await world.sender(), names(1)))).ids
      expect(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)).toBeLessThan(here() + 3_600_000)
    } finally {
      clock.mockRestore()
    }
  })

  test('an admission whose turn comes too late does not happen', async () => {
    const sender = await world.sender()
    const answer = await acceptMail(mailTo(sender, names(2), { until: performance.now() - 1 }))
    expect(codeOf(answer)).toBe('service_unavailable')
    expect([await charged(sender), await kept(sender)]).toEqual([0, 0])
  })
})

describe('the same mail again', () => {
  test('within an hour: the first ids, one charge, also for many at once', async () => {
    const sender = await world.sender({ daily: 2 })
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => acceptMail(mailTo(sender, names(2), repeat('many')))),
    )
    expect(new Set(answers.map((answer) => taken(answer).ids.join())).size).toBe(1)
    expect(answers.filter((answer) => taken(answer).replayed)).toHaveLength(9)
    expect(await charged(sender)).toBe(2)
  })

  // An MTA that lost our answer comes again with those who are left: one has bounced meanwhile, and is refused at RCPT.
  test('to some of the recipients, in another order, or to more: nobody gets it twice', async () => {
    const sender = await world.sender({ daily: 4 })
    const to = async (...recipients: string[]) =>
      taken(
        await acceptMail(
          mailTo(
            sender,
            recipients.map((name) => `${name}@receiver.test`),
            repeat('some'),
          ),
        ),
      )
    const [a, b] = (await to('a', 'b')).ids
    expect(await to('b')).toEqual({ ids: [b], replayed: true })
    expect(await to('b', 'a')).toEqual({ ids: [b, a], replayed: true })
    const more = await to('c', 'b', 'd')
    expect([more.ids[1], more.replayed]).toEqual([b, false])
    expect(await to('a', 'b', 'c', 'd')).toEqual({ ids: [a, b, more.ids[0], more.ids[2]], replayed: true })
    expect([await charged(sender), await kept(sender)]).toEqual([4, 4])
  })

  test('in another order, both behind one that is refused: neither waits for the other', async () => {
    const sender = await world.sender()
    const [a, b] = names(2) as [string, string]
    const answers = await Promise.all([
      acceptMail(mailTo(sender, [b], { ...repeat('crossed'), until: performance.now() - 1 })),
      acceptMail(mailTo(sender, [b, a], repeat('crossed'))),
      acceptMail(mailTo(sender, [a, b], repeat('crossed'))),
      acceptMail(mailTo(sender, [a], { ...repeat('crossed again'), until: performance.now() - 1 })),
      acceptMail(mailTo(sender, [a, b], repeat('crossed again'))),
      acceptMail(mailTo(sender, [b, a], repeat('crossed again'))),
    ])
    expect(answers.map(codeOf)).toEqual([
      'service_unavailable',
      'accepted',
      'accepted',
      'service_unavailable',
      'accepted',
      'accepted',
    ])
    expect(await kept(sender)).toBe(4)
  })

  test('nobody waits for the equal key of another workspace', async () => {
    const [slow, other] = [await world.sender(), await world.sender()]
    const [staging, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const stage: AcceptTools['stage'] = async (id, bytes) => {
      staging.resolve()
      await go.promise
      await tools.stage(id, bytes)
    }
    const accepting = makeAcceptMail({ ...tools, stage })
    const big = Buffer.alloc(3 * limits.contentChunkBytes, 'big\r\n')
    const first = accepting(mailTo(slow, names(1), { ...repeat('equal'), content: big }))
    await staging.promise
    expect(codeOf(await accepting(mailTo(other, names(1), repeat('equal'))))).toBe('accepted')
    go.resolve()
    expect(codeOf(await first)).toBe('accepted')
  })

  test(
    'in progress here for longer than anybody should wait: found where another node has accepted it for everybody, else come back',
    { timeout: 60_000 },
    async () => {
      const line = Promise.withResolvers<void>()
      const stage: AcceptTools['stage'] = async (id, bytes) => {
        await line.promise
        await tools.stage(id, bytes)
      }
      const slow = makeAcceptMail({ ...tools, stage })
      const big = { content: Buffer.alloc(3 * limits.contentChunkBytes, 'big\r\n') }
      const key: Partial<MailSubmission> = { idempotency: { kind: 'key', key: 'slow', hash: 'one' } }
      const cases = [
        ['a key', key, names(2), 'found'],
        ['the same mail', repeat('slow'), names(2), 'found'],
        ['the same mail to fewer', repeat('slow'), names(1), 'idempotency_in_progress'],
        ['nothing', key, [], 'idempotency_in_progress'],
      ] as const
      const told = await Promise.all(
        cases.map(async ([, how, elsewhere, answer]) => {
          const sender = await world.sender()
          const wanted = mailTo(sender, names(2), { ...how, ...big })
          const first = slow(wanted)
          const second = slow(wanted)
          const there = elsewhere.length > 0 && taken(await acceptMail(mailTo(sender, elsewhere, { ...how, ...big })))
          if (answer === 'found') expect(await second).toEqual({ ...there, replayed: true })
          else expect(codeOf(await second)).toBe(answer)
          return { sender, first }
        }),
      )
      line.resolve()
      for (const { sender, first } of told) {
        taken(await first)
        expect(await kept(sender)).toBe(2)
      }
      await world.db.run('delete from staged_blobs') // what was staged for nothing
    },
  )

  test('to sets that overlap, many at once: each recipient once', async () => {
    const sender = await world.sender()
    const sets = Array.from({ length: 30 }, (_, at) => names(6).filter((_name, name) => (at % 5) + name !== 4))
    const answers = await Promise.all(sets.map((set) => acceptMail(mailTo(sender, set, repeat('sets')))))
    const idOf = new Map<string, Set<MessageId>>()
    for (const [at, answer] of answers.entries())
      for (const [place, id] of taken(answer).ids.entries()) {
        const name = sets[at]?.[place] ?? ''
        idOf.set(name, (idOf.get(name) ?? new Set()).add(id))
      }
    expect([...idOf.values()].map(({ size }) => size)).toEqual([1, 1, 1, 1, 1, 1])
    expect([await charged(sender), await kept(sender)]).toEqual([6, 6])
  })

  test('what has expired is refused, and nothing charged; a repeat of what was accepted in time is answered with its ids', async () => {
    const sender = await world.sender()
    const expiresAt = new Date(Date.now() + 3600_000)
    const wanted = { ...repeat('in time'), expiresAt, metadata: { order: '7' } }
    const { ids } = taken(await acceptMail(mailTo(sender, names(2), wanted)))
    for (const id of ids)
      expect(await readRecord(world.db, sender.workspaceId, id)).toMatchObject({ expiresAt, metadata: { order: '7' } })
    const past = { ...wanted, expiresAt: new Date(Date.now() - 1_000) }
    expect(await acceptMail(mailTo(sender, names(2), past))).toEqual({ ids, replayed: true })
    for (const late of [past, { expiresAt: past.expiresAt }])
      expect(await acceptMail(mailTo(sender, ['new@receiver.test'], late))).toMatchObject({
        code: 'invalid_request',
        words: expect.stringContaining('X-Posthorn-Expires-At') as string,
      })
    expect([await charged(sender), await kept(sender)]).toEqual([2, 2])
  })

  test('one that tells no day: after an hour it is another mail', async () => {
    const sender = await world.sender()
    await world.setClock('2026-11-21 10:00:00+00')
    const first = taken(await acceptMail(mailTo(sender, names(1), repeat('hour'))))
    await world.setClock('2026-11-21 10:59:59+00')
    expect(taken(await acceptMail(mailTo(sender, names(1), repeat('hour'))))).toEqual({
      ids: first.ids,
      replayed: true,
    })
    await world.setClock('2026-11-21 11:00:01+00')
    const second = taken(await acceptMail(mailTo(sender, names(1), repeat('hour'))))
    expect(second.replayed).toBe(false)
    // Which is remembered for an hour of its own.
    expect(await acceptMail(mailTo(sender, names(1), repeat('hour')))).toEqual({ ids: second.ids, replayed: true })
    await world.setClock()
  })

  test('one of these days: the same for as long as mail servers try, also where we were away for most of it', async () => {
    const sender = await world.sender()
    const send = async (name: string) =>
      taken(await acceptMail(mailTo(sender, names(1), repeat(name, limits.datedRepeatKeptMs))))
    const swept = (most?: number) => sweepRepeats(world.db, most)
    await world.db.run('delete from idempotency_keys')
    await world.setClock('2026-11-21 10:00:00+00')
    const [old, first] = [await send('old'), await send('first')]
    await world.setClock('2026-11-26 10:00:00+00')
    expect(await swept()).toBe(0)
    expect(await send('first')).toEqual({ ids: first.ids, replayed: true })
    // More than are remembered: the oldest goes, and nothing that is younger than an hour.
    const today = [await send('a'), await send('b')]
    await world.db.run(
      `update idempotency_keys set created_at = created_at - interval '1 s' where message_id = $1`,
      old.ids,
    )
    expect(await swept(3)).toBe(1)
    expect(await swept(1)).toBe(1)
    expect(await send('a')).toEqual({ ids: today[0]?.ids, replayed: true })
    const again = await send('first')
    expect(again.replayed).toBe(false)
    await world.setClock('2026-12-02 09:59:59+00')
    expect(await send('first')).toEqual({ ids: again.ids, replayed: true })
    await world.setClock('2026-12-02 10:00:01+00')
    expect((await send('first')).replayed).toBe(false)
    expect(await swept()).toBe(2)
    await world.setClock()
  })

  test('of a workspace that sends little is remembered beside one that sends very much', async () => {
    const [busy, small] = [await world.sender(), await world.sender()]
    const send = async (sender: typeof busy, name: string) =>
      taken(await acceptMail(mailTo(sender, names(1), repeat(name, limits.datedRepeatKeptMs))))
    await world.db.run('delete from idempotency_keys')
    await world.setClock('2026-11-21 10:00:00+00')
    const reset = await send(small, 'reset')
    const news = []
    for (let n = 0; n < 6; n++) {
      await world.setClock(`2026-11-21 10:00:1${n}+00`)
      news.push(await send(busy, `news${n}`))
    }
    await world.setClock('2026-11-22 10:00:00+00')
    expect(await sweepRepeats(world.db, 4)).toBe(3)
    expect(await sweepRepeats(world.db, 4)).toBe(0)
    expect(await send(small, 'reset')).toEqual({ ids: reset.ids, replayed: true })
    expect(await send(busy, 'news3')).toEqual({ ids: news[3]?.ids, replayed: true })
    expect((await send(busy, 'news2')).replayed).toBe(false)
    await world.setClock()
  })

  test('a key with other content is refused; keys of REST are others', async () => {
    const sender = await world.sender()
    const key = (hash: string): Partial<MailSubmission> => ({ idempotency: { kind: 'key', key: 'k', hash } })
    const first = taken(await acceptMail(mailTo(sender, names(2), key('one'))))
    expect(await acceptMail(mailTo(sender, names(2), key('one')))).toEqual({ ids: first.ids, replayed: true })
    expect(codeOf(await acceptMail(mailTo(sender, names(2), key('two'))))).toBe('idempotency_key_reused')
    expect(await charged(sender)).toBe(2)
  })

  test('a key whose messages have no record any more does not count, and one of which a record is left does', async () => {
    const sender = await world.sender()
    const key = (hash: string): Partial<MailSubmission> => ({ idempotency: { kind: 'key', key: 'k', hash } })
    const gone = async (...ids: MessageId[]) => {
      await world.db.run('delete from outbound where message_id = any ($1)', [ids])
      await world.db.run('delete from messages where id = any ($1)', [ids])
    }
    const first = taken(await acceptMail(mailTo(sender, names(2), key('one'))))
    await gone(...first.ids.slice(0, 1))
    expect(codeOf(await acceptMail(mailTo(sender, names(2), key('two'))))).toBe('idempotency_key_reused')
    expect(await acceptMail(mailTo(sender, names(2).slice(1), key('one')))).toEqual({ ids: first.ids, replayed: true })
    await gone(...first.ids)
    for (const [hash, scanned] of [
      ['one', undefined],
      ['two', undefined],
      ['three', plain],
    ] as const) {
      const wanted = { ...key(hash), ...(scanned !== undefined && { scanned }) }
      const { ids, replayed } = taken(await acceptMail(mailTo(sender, names(2), wanted)))
      expect([replayed, await kept(sender)]).toEqual([false, 2])
      expect(await acceptMail(mailTo(sender, names(2), wanted))).toEqual({ ids, replayed: true })
      await gone(...ids)
    }
  })

  test('with a key too, who comes again may come with fewer, in another order, or after a suppression; with somebody new it is another mail', async () => {
    const sender = await world.sender({ daily: 2 })
    const key: Partial<MailSubmission> = { idempotency: { kind: 'key', key: 'k', hash: 'one' } }
    const { ids } = taken(await acceptMail(mailTo(sender, names(2), key)))
    for (const again of [names(2).toReversed(), names(1), names(2).slice(1)])
      expect(await acceptMail(mailTo(sender, again, key))).toEqual({ ids, replayed: true })
    await world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual')`,
      [sender.workspaceId, 'r0@receiver.test'],
    )
    expect(await acceptMail(mailTo(sender, names(2), key))).toEqual({ ids, replayed: true })
    expect(codeOf(await acceptMail(mailTo(sender, names(3), key)))).toBe('idempotency_key_reused')
    expect(await kept(sender)).toBe(2)
  })
})

describe('the content', () => {
  const blobOf = async (id: MessageId) => {
    const rows = await world.db.run<{ blob_id: string }>('select blob_id from attachments where message_id = $1', [id])
    return rows.map(({ blob_id: blob }) => blob)
  }

  test('a big mail, or one that is no UTF-8, is kept once for all its recipients, byte for byte', async () => {
    const sender = await world.sender()
    for (const content of [
      Buffer.concat([parted('Good morning'), Buffer.alloc(3 * limits.contentChunkBytes, 'big\r\n')]),
      Buffer.from('From: x\r\nX-Odd: \xff\xfe\r\n\r\nGood morning\r\n', 'latin1'),
    ]) {
      const { ids } = taken(await acceptMail(mailTo(sender, names(2), { content })))
      const blobs = await Promise.all(ids.map(blobOf))
      expect(new Set(blobs.flat()).size).toBe(1)
      expect((await readBlob(world.db, blobs[0]?.[0] ?? ''))?.equals(content)).toBe(true)
      expect(await readRecord(world.db, sender.workspaceId, ids[1] as MessageId)).toMatchObject({
        bodyText: 'Good morning\n',
      })
      expect(await world.value('select bool_and(shares_blobs) from contents where message_id = any ($1)', [ids])).toBe(
        true,
      )
    }
    expect(await world.value('select count(*)::integer from staged_blobs')).toBe(0)
  })

  test('a big mail to one is shared with nobody; its size counts what it lacked, and its text is kept whole, however long', async () => {
    const sender = await world.sender()
    const text = 'long\n'.repeat(limits.contentInlineBytesMax)
    const content = Buffer.from(`From: post@w.example\r\n\r\n${text.replaceAll('\n', '\r\n')}`)
    const { ids } = taken(await acceptMail(mailTo(sender, names(1), { content, lacks: ['Date'] })))
    const [file] = await world.db.run<{ blob: string; size: number; shared: boolean }>(
      `select a.blob_id blob, a.size_bytes::integer size, c.shares_blobs shared
         from attachments a join contents c on c.message_id = a.message_id where a.message_id = $1`,
      [ids[0]],
    )
    const blob = await readBlob(world.db, file?.blob ?? '')
    expect([file?.shared, file?.size]).toEqual([false, blob?.length])
    expect(blob?.subarray(-content.length).equals(content)).toBe(true)
    const record = await readRecord(world.db, sender.workspaceId, ids[0] as MessageId)
    expect(record?.bodyText === text).toBe(true)
  })

  test('the text of a big mail is read by the scan, in its thread, and not where it would hold up everybody else', async () => {
    const sender = await world.sender()
    const content = Buffer.concat([parted('Read here'), Buffer.alloc(2 * limits.contentInlineBytesMax, 'big\r\n')])
    // Another text in what is scanned tells which of the two was read.
    const scanned = Buffer.from(content.toString().replace('Read here', 'Read by the scan'))
    const { ids } = taken(await acceptMail(mailTo(sender, names(1), { content, scanned })))
    expect(await readRecord(world.db, sender.workspaceId, ids[0] as MessageId)).toMatchObject({
      bodyText: 'Read by the scan\n',
    })
  })

  test('what is lacking is made of the first id, the same for all', async () => {
    const sender = await world.sender()
    const { ids } = taken(await acceptMail(mailTo(sender, names(2), { lacks: ['Date', 'Message-ID'] })))
    const texts = await world.db.run<{ text: string }>(
      'select body_text "text" from contents where message_id = any ($1)',
      [ids],
    )
    expect(new Set(texts.map(({ text }) => text)).size).toBe(1)
    const date = Date.parse(/^Date: (.*)\r\n/.exec(texts[0]?.text ?? '')?.[1] ?? '')
    expect(Math.abs(date - (await databaseNow(world.db)).getTime())).toBeLessThan(600_000)
    expect(texts[0]?.text).toMatch(
      new RegExp(`^Date: \\w{3}, .* \\+0000\r\nMessage-ID: <${ids[0]}@w\\.example>\r\nFrom: `),
    )
  })

  const eicar = ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR', '-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join('')

  test('what the scan said is kept with each message', async () => {
    const sender = await world.sender()
    const { ids } = taken(
      await acceptMail(mailTo(sender, names(2), { scanned: Buffer.from('From: x\r\n\r\nclean\r\n') })),
    )
    const records = await world.db.run<{ id: string; verdict: string }>(
      `select message_id id, record ->> 'verdict' verdict from scans where message_id = any ($1) order by message_id`,
      [ids],
    )
    expect(records).toEqual(ids.toSorted().map((id) => ({ id, verdict: 'clean' })))
  })

  test('what is refused anyway, or was accepted before, is not scanned', async () => {
    const sender = await world.sender({ daily: 1 })
    const malware = { scanned: Buffer.from(`From: x\r\n\r\n${eicar}\r\n`) }
    const { ids } = taken(await acceptMail(mailTo(sender, names(1), repeat('known'))))
    expect(await acceptMail(mailTo(sender, names(1), { ...repeat('known'), ...malware }))).toEqual({
      ids,
      replayed: true,
    })
    expect(codeOf(await acceptMail(mailTo(sender, names(1), malware)))).toBe('daily_limit_reached')
  })

  test.each([
    ['in a mail', {}],
    ['in a mail of one text', { plainText: Buffer.from(`${eicar}\r\n`) }],
  ])('malware %s: nothing is kept, nothing is charged', async (_, changes) => {
    const sender = await world.sender()
    const scanned = Buffer.from(`From: x\r\n\r\n${eicar}\r\n`)
    const answer = await acceptMail(mailTo(sender, names(2), { scanned, ...changes }))
    expect(codeOf(answer)).toBe('attachment_infected')
    expect([await charged(sender), await kept(sender)]).toEqual([0, 0])
  })
})
