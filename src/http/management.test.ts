// The management endpoints at their work, over a real database: what each promises beyond who may ask (isolation.test.ts).
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { isRefusal } from '../domain/refusal.ts'
import type { Submission } from '../domain/submission.ts'
import { scopes } from '../domain/scopes.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { isMailMistake, readSubmittedMail } from '../mail/submitted-mail.ts'
import { readReplaceable } from '../store/sent-again.ts'
import { makeFold } from '../store/usage.ts'
import type { Sender } from '../store/store.test-kit.ts'
import { makeToken } from '../mail/return-path.ts'
import { makeReturnPathKeys } from '../store/return-path-keys.ts'
import { makeSandboxInbox } from '../store/sandbox.ts'
import { saveSystemMailbox, sendAgain, setWorkspace } from '../workspace/workspace.ts'
import { officeWorld, tokenOf, type BrowserOf, type OfficeWorld } from './office.test-kit.ts'

let office: OfficeWorld
let shop: Sender
let owner: Awaited<ReturnType<OfficeWorld['signedIn']>>
let key: string
beforeAll(async () => {
  office = await officeWorld()
})
afterAll(() => office.close())
/** A workspace of its own for each group. */
const begin = async () => {
  shop = await office.sender()
  owner = await office.signedIn('owner', shop.workspaceId)
  key = await office.key(shop.workspaceId, ...scopes)
}
const send = async (recipient: string, more: object = {}): Promise<string> => {
  const body = { mailboxId: shop.mailboxId, recipient, subject: 'Hello', bodyText: 'Good morning', ...more }
  const answer = await office.withKey(key, 'POST', '/send', body)
  expect(answer.statusCode).toBe(202)
  return answer.json<{ id: string }>().id
}
interface Listed {
  readonly items: { readonly id: string; readonly [name: string]: unknown }[]
  readonly next?: string
  readonly lookedBackTo?: string
}
const list = async (path: string): Promise<Listed> => {
  const answer = await owner.ask('GET', path)
  expect(answer.statusCode).toBe(200)
  return answer.json<Listed>()
}
/** The actions of the audit log, oldest first. */
const audit = async (): Promise<string[]> =>
  (await list('/audit?limit=200')).items
    .map((item) => `${item['action'] as string} ${item['actor'] as string}`)
    .toReversed()

describe('messages', () => {
  let ids: string[]
  beforeAll(async () => {
    await begin()
    ids = []
    for (const recipient of ['ann@example.org', 'Bob@example.org', 'ann@example.org', 'carl@example.net'])
      ids.push(await send(recipient, { subject: `To ${recipient.slice(0, 3)}`, metadata: { order: '1' } }))
    await office.world.db.run(`update messages set status = 'failed', finished_at = now() where id = $1`, [ids[0]])
    await office.world.db.run(`update messages set delivery_rank = 4 where id = $1`, [ids[1]])
  })

  test('come newest first, page by page, each once', async () => {
    const seen: string[] = []
    let cursor = ''
    do {
      const page = await list(`/messages?limit=3${cursor}`)
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.next === undefined ? '' : `&cursor=${page.next}`
    } while (cursor !== '')
    expect(seen).toEqual(ids.toReversed())
  })

  const filters: [string, number[]][] = [
    ['status=failed', [0]],
    ['deliveryStatus=hard_bounce', [1]],
    ['deliveryStatus=pending&status=queued', [3, 2]],
    ['recipient=ANN%40example.org', [2, 0]],
    ['recipient=ann%40example.org&status=queued', [2]],
    ['recipient=nobody%40example.org', []],
    ['text=bob', [1]],
    ['text=TO%20ANN', [2, 0]],
    ['text=%25', []],
    ['from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z', []],
    ['from=2020-01-01T00:00:00Z', [3, 2, 1, 0]],
    ['from=2016-12-31t23:59:60z', [3, 2, 1, 0]],
    ['to=2016-12-31T23:59:60Z', []],
  ]
  test.each(filters)('are found by %s', async (filter, expected) => {
    expect((await list(`/messages?${filter}`)).items.map(({ id }) => id)).toEqual(expected.map((n) => ids[n]))
    const paged = await list(`/messages?${filter}&limit=1`)
    expect(paged.items.map(({ id }) => id)).toEqual(expected.slice(0, 1).map((n) => ids[n]))
    if (expected.length > 1)
      expect((await list(`/messages?${filter}&limit=1&cursor=${paged.next}`)).items[0]?.id).toBe(
        ids[expected[1] as number],
      )
  })

  describe('are found by what their senders and receivers call them', () => {
    let place: Sender
    let reader: BrowserOf
    let made: string[] = []
    beforeAll(async () => {
      place = await office.sender()
      reader = await office.signedIn('viewer', place.workspaceId)
      const theirs = await office.key(place.workspaceId, ...scopes)
      const metadata = [
        { order: 'ORD-4711', note: 'a "quoted" \\ Gr\u00fc\u00dfe \n {"order":"ORD-1"}' },
        { customer: 'ORD-4711', 'a b': '' },
        undefined,
      ]
      const answers = []
      for (const each of metadata)
        answers.push(
          await office.withKey(theirs, 'POST', '/send', {
            mailboxId: place.mailboxId,
            recipient: 'ann@example.org',
            subject: 'Hello',
            bodyText: 'x',
            ...(each && { metadata: each }),
          }),
        )
      made = answers.map((answer) => answer.json<{ id: string }>().id)
      await office.world.db.run(
        `update messages set provider_message_id = '4XyZ', subject = 'İSTANBUL, ΟΔΟΣ' where id = $1`,
        [made[2]],
      )
    })
    const found = async (query: string) => {
      const answer = await reader.ask('GET', `/messages?${query}`)
      return answer.json<Listed>().items.map(({ id }) => made.indexOf(id))
    }

    const cases: [string, Readonly<Record<string, string>>, number[]][] = [
      ['a value under its name', { metadataName: 'order', metadataValue: 'ORD-4711' }, [0]],
      ['not under another', { metadataName: 'note', metadataValue: 'ORD-4711' }, []],
      ['a value under any name', { metadataValue: 'ORD-4711' }, [1, 0]],
      ['no part of one', { metadataValue: 'ORD-471' }, []],
      ['in the case that it has', { metadataValue: 'ord-4711' }, []],
      ['odd signs', { metadataName: 'note', metadataValue: 'a "quoted" \\ Gr\u00fc\u00dfe \n {"order":"ORD-1"}' }, [0]],
      ['not what a value looks like inside', { metadataValue: 'ORD-1' }, []],
      ['a value that is empty', { metadataName: 'a b', metadataValue: '' }, [1]],
      ['their id', { providerMessageId: '4XyZ' }, [2]],
      ['no part of their id', { providerMessageId: '4Xy' }, []],
      ['words: a whole value, in any case', { text: 'ord-4711' }, [1, 0]],
      ['words: no part of a value', { text: 'ord-471' }, []],
      ['words: no name', { text: 'customer' }, []],
      ['words: their id, in any case', { text: '4xyz' }, [2]],
      ['words: their whole reply', { text: '250 2.0.0 Ok: queued as 4XyZ' }, [2]],
      ['words: a reply that is long', { text: `250 2.0.0 ${'we took it, '.repeat(75)}queued as 4XyZ` }, [2]],
      ['words: no part of their id', { text: '4xy' }, []],
      ['words: as the subject has them, whose capitals others make small otherwise', { text: 'İSTANBUL, ΟΔΟΣ' }, [2]],
      ['with a state', { metadataValue: 'ORD-4711', status: 'sent' }, []],
      ['with a recipient', { metadataValue: 'ORD-4711', recipient: 'ann@example.org' }, [1, 0]],
      ['with another recipient', { providerMessageId: '4XyZ', recipient: 'bob@example.org' }, []],
    ]
    test.each(cases)('%s', async (_, query, expected) => {
      expect(await found(String(new URLSearchParams(query)))).toEqual(expected)
    })

    test('a name alone is refused', async () => {
      expect((await reader.ask('GET', '/messages?metadataName=order')).json()).toMatchObject({ field: 'metadataValue' })
    })
  })

  test('a range that can hold nothing is refused, as it is everywhere', async () => {
    const from = '2026-11-02T00:00:00Z'
    for (const to of [from, '2026-11-01T00:00:00Z'])
      expect((await owner.ask('GET', `/messages?from=${from}&to=${to}`)).json()).toMatchObject({
        code: 'invalid_request',
        field: 'from',
      })
    expect(
      (await owner.ask('POST', '/suppressions/undo', { body: { rule: 'x', since: from, until: from } })).json(),
    ).toMatchObject({ code: 'invalid_request', field: 'since' })
  })

  test('a search without an index looks at a bounded number of them, and its cursor goes on behind those', async () => {
    const place = await office.sender()
    const many = limits.messagesScannedMax + 500
    await office.world.db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
       select $1, (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, $2, 'rest', 'queued', 1, 'a@b.co', 'c@d.co', 'c@d.co',
              case i when 3 then 'needle' else 'hay' end, 'node', now() from generate_series(1, ${many}) i`,
      [place.workspaceId, place.mailboxId],
    )
    const browser = await office.signedIn('viewer', place.workspaceId)
    const first = (await browser.ask('GET', '/messages?text=needle')).json<Listed>()
    expect(first.items).toEqual([])
    const second = (await browser.ask('GET', `/messages?text=needle&cursor=${first.next}`)).json<Listed>()
    expect(second).toEqual({ items: [expect.objectContaining({ subject: 'needle' })] })
    // All were accepted at one moment, of which an id rounds the milliseconds and a time cuts them off.
    const between = Date.parse(first.lookedBackTo ?? '') - Date.parse(second.items[0]?.['createdAt'] as string)
    expect([0, 1]).toContain(between)
  })

  test('of metadata that are as large as they may be it looks at fewer, and finds on the way what lies behind them', async () => {
    const place = await office.sender()
    const values = Array.from({ length: limits.metadataPairsMax }, () => 'x'.repeat(limits.metadataValueCharactersMax))
    const large = Object.fromEntries(values.entries())
    const many = Math.ceil(
      (2.5 * limits.messagesScannedBytesMax) / (limits.metadataPairsMax * limits.metadataValueCharactersMax),
    )
    await office.world.db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, metadata, accepted_by, created_at)
       select $1, (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, $2, 'rest', 'queued', 1, 'a@b.co', 'c@d.co', 'c@d.co', 'x',
              case i when 1 then $4 else $5 end::json, 'node', now() from generate_series(1, $3::integer) i`,
      [place.workspaceId, place.mailboxId, many, JSON.stringify({ ...large, 9: 'needle' }), JSON.stringify(large)],
    )
    const browser = await office.signedIn('viewer', place.workspaceId)
    for (const asked of ['text=Needle', 'metadataValue=needle', 'recipient=c@d.co&text=needle']) {
      const pages: Listed[] = []
      do {
        const cursor = pages.at(-1)?.next
        pages.push((await browser.ask('GET', `/messages?${asked}${cursor ? `&cursor=${cursor}` : ''}`)).json<Listed>())
      } while (pages.at(-1)?.next !== undefined)
      expect(pages.map(({ items }) => items.length)).toEqual([0, 0, 1])
    }
    // Nobody's words are read where something else does not fit.
    expect((await browser.ask('GET', '/messages?text=needle&status=sent')).json()).toEqual({ items: [] })
  })

  test('a timeline tells everything about one', async () => {
    const [claim] = await office.world.claimed(shop, [{ armed: true }])
    await office.world.db.run(
      `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, now(), 'retrying', $3)`,
      [shop.workspaceId, claim?.id, JSON.stringify({ host: 'mx.example.org', dialogue: ['S: 451 4.7.1 later'] })],
    )
    const answer = await owner.ask('GET', `/messages/${claim?.id}/timeline`)
    expect(answer.json()).toMatchObject({
      message: { id: claim?.id, organizationId: shop.workspaceId, bodyText: 'Good morning' },
      processingStatus: 'sending',
      deliveryStatus: 'pending',
      events: [
        { sequence: 1, type: 'message.queued' },
        { sequence: 2, type: 'message.sending' },
      ],
      reports: [],
      attempts: [{ outcome: 'retrying', facts: { dialogue: ['S: 451 4.7.1 later'] } }],
      queue: { armed: true, destination: 'example.org' },
    })
    expect(answer.body).not.toContain('token')
  })
})

describe('the webhooks in a timeline', () => {
  beforeAll(begin)
  interface Story {
    readonly events: { readonly sequence: number; readonly webhook?: unknown }[]
  }

  test('are told where they happened, to those who may read their log, and the answers stay in it', async () => {
    const id = await send('ann@example.org')
    const other = await send('bob@example.org')
    const { db } = office.world
    await db.run(
      `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, trouble, status, duration_ms, excerpt)
       select workspace_id, id, 1, 1, n, now() + n * interval '1 second', n = 3, case n when 1 then 'timeout' end, case n when 2 then 500 when 3 then 204 end, 12, 'secret words'
         from messages, generate_series(1, 3) n where id = $1`,
      [id],
    )
    const events = async (browser: Pick<BrowserOf, 'ask'>, message = id) =>
      (await browser.ask('GET', `/messages/${message}/timeline`)).json<Story>().events
    expect(await events(owner)).toEqual([
      expect.objectContaining({
        sequence: 1,
        webhook: {
          state: 'delivered',
          attempts: [
            expect.objectContaining({ attempt: 1, delivered: false, trouble: 'timeout', durationMs: 12 }),
            expect.objectContaining({ attempt: 2, delivered: false, status: 500 }),
            expect.objectContaining({ attempt: 3, delivered: true, status: 204 }),
          ],
        },
      }),
    ])
    expect(JSON.stringify(await events(owner))).not.toContain('secret words')
    // Nothing was posted of this one, and nothing waits.
    expect(await events(owner, other)).toEqual([expect.not.objectContaining({ webhook: expect.anything() as object })])
    await db.run(
      `insert into webhook_queue (workspace_id, message_id, sequence, due_at, attempts) values ($1, $2, 1, '2030-01-01T00:00:00Z', 2)`,
      [shop.workspaceId, other],
    )
    expect(await events(owner, other)).toEqual([
      expect.objectContaining({
        webhook: { state: 'waiting', nextAttemptAt: '2030-01-01T00:00:00.000Z', attempts: [] },
      }),
    ])
    const reader = await office.key(shop.workspaceId, 'mail.read')
    const both = await office.key(shop.workspaceId, 'mail.read', 'webhooks.read')
    const timelineWith = async (key: string) =>
      (await office.withKey(key, 'GET', `/messages/${id}/timeline`)).json<Story>().events[0]?.webhook
    expect(await timelineWith(reader)).toBeUndefined()
    expect(await timelineWith(both)).toMatchObject({ state: 'delivered' })
  })

  test('are the newest, where there are very many', async () => {
    const id = await send('ann@example.org')
    await office.world.db.run(
      `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, status)
       select workspace_id, id, 1, n, 1, now() + n * interval '1 second', n = 1, 500 from messages, generate_series(1, $2::integer) n where id = $1`,
      [id, limits.timelinePostsMax + 5],
    )
    const story = (await owner.ask('GET', `/messages/${id}/timeline`)).json<{
      events: { webhook: { state: string; attempts: { round: number }[] } }[]
    }>()
    const { state, attempts } = story.events[0]?.webhook ?? { attempts: [] }
    // That it was delivered once is not forgotten with the post that is not shown.
    expect(state).toBe('delivered')
    expect(attempts).toHaveLength(limits.timelinePostsMax)
    expect(attempts[0]?.round).toBe(6)
  })
})

describe('the content of a message', () => {
  beforeAll(begin)
  const content = (id: string) => owner.ask('GET', `/messages/${id}/content`)
  const page = (id: string) => owner.ask('GET', `/messages/${id}/content/html`)
  const html = '<p onclick=alert(1)>Hello</p><script>alert(2)</script><img src="https://evil.example/x.png">'
  const submitted = async (mail: string): Promise<string> => {
    const answer = await office.office.acceptMail({
      workspaceId: shop.workspaceId,
      mailboxId: shop.mailboxId,
      recipients: [parseAddress('ann@example.org') as EmailAddress],
      scanned: Buffer.from(mail),
      content: Buffer.from(mail.replaceAll('\n', '\r\n')),
      lacks: [],
      senderDomain: 'w.example',
      subject: 'Hi',
      until: performance.now() + 15_000,
    })
    if (isRefusal(answer)) throw new Error(answer.words)
    return answer.ids[0] as string
  }

  test('over REST: its text and its files', async () => {
    const file = { filename: 'a.txt', contentBase64: 'QUJD' }
    const id = await send('ann@example.org', { attachments: [file] })
    expect((await content(id)).json()).toEqual({
      text: 'Good morning',
      html: false,
      attachments: [{ filename: 'a.txt', contentType: 'application/octet-stream', sizeBytes: 3 }],
      whole: true,
    })
    expect((await page(id)).json()).toMatchObject({ code: 'not_found' })
  })

  test('over SMTP: its HTML is a page that browsers run nothing of, load nothing for and show in our frame alone', async () => {
    const id = await submitted(`Subject: Hi\nContent-Type: text/html\n\n${html}\n`)
    expect((await content(id)).json()).toMatchObject({ text: 'Hello', html: true, whole: true })
    const answer = await page(id)
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(answer.headers['cache-control']).toBe('no-store')
    const policy = String(answer.headers['content-security-policy']).split('; ')
    expect(policy).toContain('sandbox')
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'self'")
    expect(policy.filter((line) => /script|https?:|\*|allow/.test(line))).toEqual([])
    expect(answer.body).toContain('Hello')
  })

  test('a big one is looked at from its beginning', async () => {
    const file = 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2\n'.repeat(80_000)
    const id = await submitted(
      `Content-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: text/html\n\n${html}\n--m\nContent-Type: image/png; name=big.png\nContent-Transfer-Encoding: base64\n\n${file}--m--\n`,
    )
    expect((await content(id)).json()).toMatchObject({
      html: true,
      whole: false,
      attachments: [{ filename: 'big.png' }],
    })
    expect((await page(id)).body).toContain('Hello')
  })

  test('of a long text the beginning is shown, and said to be one', async () => {
    const bodyText = `a${'ü'.repeat(2_300_000)}`
    const { text, whole } = (await content(await send('ann@example.org', { bodyText }))).json<Record<string, unknown>>()
    expect(whole).toBe(false)
    expect(text).toBe(bodyText.slice(0, limits.previewBytesMax / 2))
  })

  test('is not there after it has expired', async () => {
    const id = await submitted(`Subject: Hi\nContent-Type: text/html\n\n${html}\n`)
    await office.world.db.run('delete from outbound where message_id = $1', [id])
    await office.world.db.run(
      `update messages set status = 'failed', finished_at = app_now() - interval '8 days' where id = $1`,
      [id],
    )
    for (const answer of [await content(id), await page(id)])
      expect([answer.statusCode, answer.json()]).toEqual([
        404,
        expect.objectContaining({ error: 'The content of this message has expired.' }),
      ])
  })
})

describe('sending a message again', () => {
  beforeAll(begin)
  const unknown = async (recipient = 'ann@example.org'): Promise<string> => {
    const file = { filename: 'a.txt', contentBase64: 'QUJD' }
    return lost(await send(recipient, { attachments: [file], metadata: { order: '7' } }))
  }
  /** Its final dot was written, and no reply came. */
  const lost = async (id: string): Promise<string> => {
    await office.world.db.run('delete from outbound where message_id = $1', [id])
    await office.world.db.run(`update messages set status = 'sending' where id = $1`, [id])
    await office.world.db.run(
      `update messages set status = 'delivery_unknown', finished_at = app_now(), armed_epoch = 1, armed_token = 7 where id = $1`,
      [id],
    )
    return id
  }
  const later = async <T>(seconds: number, work: () => Promise<T>): Promise<T> => {
    await office.world.setClock(new Date(Date.now() + seconds * 1000).toISOString())
    try {
      return await work()
    } finally {
      await office.world.setClock()
    }
  }
  const again = (id: string) => owner.ask('POST', `/messages/${id}/send-again`)
  const story = (id: string) => owner.ask('GET', `/messages/${id}/timeline`)
  /** Between the look and the commit: what the service has looked at is no longer so. */
  const meanwhile = async <T>(change: string, id: string, work: () => Promise<T>): Promise<T> => {
    const session = await office.world.session()
    await session.query('begin')
    await session.query(change, [id])
    const asked = work()
    await office.world.untilSomebodyWaits()
    await session.query('commit')
    return asked
  }
  const messages = () =>
    office.world.value<number>('select count(*)::integer from messages where workspace_id = $1', [shop.workspaceId])

  test('waits until no worker can still hold its socket', async () => {
    const id = await unknown()
    const before = await messages()
    const answer = await again(id)
    expect(answer.statusCode).toBe(409)
    expect(answer.json<{ error: string }>().error).toMatch(/too early/)
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(limits.sendAgainGraceSeconds - 60)
    // Nor does the transaction let it, whoever asks.
    const admitted = office.world.db.run(
      `insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id) values ($1, 'send_again', $2, '', $3)`,
      [shop.workspaceId, `${id}+${limits.sendAgainGraceSeconds}`, id],
    )
    await expect(admitted).rejects.toThrow('may not be sent again')
    expect(await messages()).toBe(before)
    // What the page of the message says of it.
    const { sendAgainAt } = (await owner.ask('GET', `/messages/${id}/timeline`)).json<{ sendAgainAt?: string }>()
    const finishedAt = await office.world.value<Date>('select finished_at from messages where id = $1', [id])
    expect(sendAgainAt).toBe(new Date(finishedAt.getTime() + limits.sendAgainGraceSeconds * 1000).toISOString())
  })

  test('makes one new message with its own id, however often and however many at once ask', async () => {
    const id = await unknown()
    const before = await messages()
    const answers = await later(limits.sendAgainGraceSeconds + 60, () => Promise.all([again(id), again(id), again(id)]))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202, 202])
    const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
    expect(made.size).toBe(1)
    expect(made.has(id)).toBe(false)
    expect(await messages()).toBe(before + 1)
    const [newId] = [...made]
    expect(answers.filter((answer) => answer.headers['idempotent-replayed'] === 'true')).toHaveLength(2)
    const told = (await owner.ask('GET', `/messages/${id}/timeline`)).json<object>()
    expect(told).toMatchObject({ processingStatus: 'delivery_unknown', sentAgainAs: newId })
    expect(told).not.toHaveProperty('sendAgainAt')
    expect((await story(newId ?? '')).json()).toMatchObject({
      sentAgainFor: id,
      sentAgainForStatus: 'delivery_unknown',
      processingStatus: 'queued',
      message: { metadata: { order: '7' }, bodyText: 'Good morning', recipient: 'ann@example.org' },
    })
    const files = await office.world.value<string>(
      `select string_agg(convert_from(b.bytes, 'UTF8'), '') from attachments a join blobs b on b.id = a.blob_id where a.message_id = $1`,
      [newId],
    )
    expect(files).toBe('ABC')
    expect((await audit()).filter((line) => line.startsWith('message.sent_again'))).toHaveLength(1)
  })

  test('is refused by the transaction itself when late proof came first', async () => {
    const id = await unknown()
    const before = await messages()
    const proven = `update messages set status = 'sent', armed_epoch = null, armed_token = null where id = $1`
    const answer = await later(limits.sendAgainGraceSeconds + 60, () => meanwhile(proven, id, () => again(id)))
    expect(answer.statusCode).toBe(409)
    expect(answer.json()).toMatchObject({ code: 'conflict' })
    expect(await messages()).toBe(before)
  })

  test('is for those that failed or are unknown alone', async () => {
    const id = await send('bob@example.org')
    const changed = (set: string) => office.world.db.run(`update messages set ${set} where id = $1`, [id])
    const refusedAs = async (state: string) => {
      const answer = await again(id)
      expect([answer.statusCode, answer.json<{ error: string }>().error]).toEqual([
        409,
        expect.stringContaining(`this one is ${state}`),
      ])
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
    }
    await refusedAs('queued')
    await changed(`status = 'sending'`)
    await refusedAs('sending')
    await changed(`status = 'retrying'`)
    await refusedAs('retrying')
    await changed(`status = 'sending'`)
    await changed(`status = 'sent', finished_at = app_now()`)
    await refusedAs('sent')
  })

  describe('that failed', () => {
    const failed = async (recipient = 'ann@example.org', more: object = {}): Promise<string> => {
      const id = await send(recipient, more)
      await office.world.db.run('delete from outbound where message_id = $1', [id])
      await office.world.db.run(
        `update messages set status = 'failed', finished_at = app_now(), delivery_rank = 3, error_message = '552 5.2.2 Mailbox full' where id = $1`,
        [id],
      )
      return id
    }
    const charged = () =>
      office.world.value<number>('select month_count from usage where workspace_id = $1', [shop.workspaceId])

    test('is done at once, and makes one new message, however often and however many at once ask; each names the other', async () => {
      const id = await failed('ann@example.org', { expiresAt: new Date(Date.now() + 24 * 3600_000).toISOString() })
      const [before, chargedBefore] = [await messages(), await charged()]
      const finishedAt = await office.world.value<Date>('select finished_at from messages where id = $1', [id])
      expect((await story(id)).json()).toMatchObject({ sendAgainAt: finishedAt.toISOString() })
      const other = await office.signedIn('developer', shop.workspaceId)
      const answers = await Promise.all([again(id), again(id), other.ask('POST', `/messages/${id}/send-again`)])
      answers.push(await again(id))
      expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202, 202, 202])
      const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
      expect(made.size).toBe(1)
      const [newId = ''] = [...made]
      expect([await messages(), await charged()]).toEqual([before + 1, chargedBefore + 1])
      const told = (await story(id)).json<object>()
      expect(told).toMatchObject({ processingStatus: 'failed', sentAgainAs: newId })
      expect(told).not.toHaveProperty('sendAgainAt')
      const follower = (await story(newId)).json<{ message: object; events: { type: string }[] }>()
      expect(follower).toMatchObject({
        sentAgainFor: id,
        sentAgainForStatus: 'failed',
        processingStatus: 'queued',
        deliveryStatus: 'pending',
        message: { bodyText: 'Good morning', recipient: 'ann@example.org' },
      })
      expect(follower.events.map(({ type }) => type)).toEqual(['message.queued'])
      // When to give up was said of the first.
      expect(follower.message).not.toHaveProperty('expiresAt')
      const written = `select count(*)::integer from audit_log where action = 'message.sent_again' and target = $1`
      expect(await office.world.value(written, [id])).toBe(1)
    })

    test('holds the files of one message at a time, however many of a workspace are asked for, and those of another beside', async () => {
      const file = { attachments: [{ filename: 'a.txt', contentBase64: 'QUJD' }] }
      const ids = [await failed('ann@example.org', file), await failed('bob@example.org', file)]
      const other = await office.sender()
      const key = await office.key(other.workspaceId, ...scopes)
      const body = { mailboxId: other.mailboxId, recipient: 'ann@example.org', subject: 's', bodyText: 'b', ...file }
      const theirs = (await office.withKey(key, 'POST', '/send', body)).json<{ id: string }>().id
      await office.world.db.run('delete from outbound where message_id = $1', [theirs])
      await office.world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [
        theirs,
      ])
      const held: string[] = []
      const releases: (() => void)[] = []
      const { accept, acceptMail } = office.office
      const slow = async (submission: Submission) => {
        held.push(submission.workspaceId)
        await new Promise<void>((resolve) => releases.push(resolve))
        return accept(submission)
      }
      const ask = (workspaceId: WorkspaceId, id = '') =>
        sendAgain(
          { db: office.world.db, accept: slow, acceptMail },
          { workspaceId, actor: `user:${owner.login.id}`, scopes: new Set<string>() },
          id as MessageId,
        )
      const ours = ids.map((id) => ask(shop.workspaceId, id))
      const beside = ask(other.workspaceId, theirs)
      await expect.poll(() => held.length).toBe(2)
      expect(new Set(held)).toEqual(new Set([shop.workspaceId, other.workspaceId]))
      for (const release of releases.splice(0)) release()
      expect(isRefusal(await beside)).toBe(false)
      await expect.poll(() => held.length).toBe(3)
      for (const release of releases) release()
      expect((await Promise.all(ours)).map(isRefusal)).toEqual([false, false])
    })

    test('stands in the audit log with who asked also where the process is gone right behind the admission', async () => {
      const id = await failed()
      const { accept, acceptMail } = office.office
      const gone = async (submission: Submission) => {
        expect(isRefusal(await accept(submission))).toBe(false)
        throw new Error('gone')
      }
      const actor = `user:${owner.login.id}`
      const by = { workspaceId: shop.workspaceId, actor, scopes: new Set<string>() }
      await expect(sendAgain({ db: office.world.db, accept: gone, acceptMail }, by, id as MessageId)).rejects.toThrow(
        'gone',
      )
      expect((await story(id)).json()).toHaveProperty('sentAgainAs')
      const asked = `select actor from audit_log where action = 'message.send_again_asked' and target = $1`
      expect(await office.world.value(asked, [id])).toBe(actor)
    })

    test('a follower that fails, too, can be sent again itself', async () => {
      const first = await failed()
      const second = (await again(first)).json<{ id: string }>().id
      await office.world.db.run('delete from outbound where message_id = $1', [second])
      await office.world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [
        second,
      ])
      const third = (await again(second)).json<{ id: string }>().id
      expect(new Set([first, second, third]).size).toBe(3)
      expect((await again(first)).json()).toMatchObject({ id: second })
    })

    test('is refused like any other: suppressed, blocked, without its mailbox or its content', async () => {
      const id = await failed('dora@example.org')
      const before = await messages()
      await owner.ask('POST', '/suppressions', { body: { recipient: 'dora@example.org' } })
      expect((await again(id)).json()).toMatchObject({ code: 'recipient_suppressed' })
      await owner.ask('DELETE', '/suppressions/dora%40example.org')
      await office.world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [shop.mailboxId])
      expect((await again(id)).json()).toMatchObject({ code: 'mailbox_not_active' })
      await office.world.db.run(`update mailboxes set status = 'active' where id = $1`, [shop.mailboxId])
      await office.world.db.run('delete from contents where message_id = $1', [id])
      expect((await again(id)).json()).toMatchObject({
        code: 'conflict',
        error: expect.stringMatching(/not there any more/) as string,
      })
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
      expect(await messages()).toBe(before)
    })

    test.each([
      ['delivered', 2],
      ['complaint', 5],
    ])('is not sent again where a report says that it came all the same: %s', async (_, rank) => {
      const id = await failed()
      await office.world.db.run('update messages set delivery_rank = $2 where id = $1', [id, rank])
      expect((await again(id)).json()).toMatchObject({
        code: 'conflict',
        error: expect.stringMatching(/came all the same/) as string,
      })
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
    })

    test('is refused by the transaction itself where that report came between', async () => {
      const id = await failed()
      const before = await messages()
      const answer = await meanwhile(`update messages set delivery_rank = 2 where id = $1`, id, () => again(id))
      expect(answer.json()).toMatchObject({ code: 'conflict' })
      expect(await messages()).toBe(before)
    })

    test('by late proof, after it was sent again as unknown, is not sent a second time', async () => {
      const id = await unknown()
      const first = (await later(limits.sendAgainGraceSeconds + 60, () => again(id))).json<{ id: string }>()
      const proven = `armed_epoch = null, armed_token = null, finished_at = app_now()`
      await office.world.db.run(`update messages set status = 'failed', ${proven} where id = $1`, [id])
      const answer = await again(id)
      expect(answer.headers['idempotent-replayed']).toBe('true')
      expect(answer.json()).toMatchObject({ id: first.id })
      expect((await story(first.id)).json()).toMatchObject({ sentAgainFor: id, sentAgainForStatus: 'failed' })
    })

    test('by late proof, before anybody sent it again, is sent again without waiting', async () => {
      const id = await unknown()
      const proven = `armed_epoch = null, armed_token = null, finished_at = app_now()`
      await office.world.db.run(`update messages set status = 'failed', ${proven} where id = $1`, [id])
      expect((await again(id)).statusCode).toBe(202)
    })
  })

  describe('that came over SMTP', () => {
    const head =
      'From: post@w.example\r\nSubject: Hi\r\nDate: Sat, 21 Nov 2026 09:30:00 +0000\r\nMessage-ID: <own@w.example>\r\n'
    const plain = Buffer.from(`${head}\r\nGood\r\n.morning\r\n`)
    const submitted = async (content: Buffer, recipients = ['ann@example.org']): Promise<string[]> => {
      const mail = readSubmittedMail(content, true, Date.now())
      if (isMailMistake(mail)) throw new Error(mail.words)
      const answer = await office.office.acceptMail({
        workspaceId: shop.workspaceId,
        mailboxId: shop.mailboxId,
        recipients: recipients.map((text) => parseAddress(text) as EmailAddress),
        scanned: content,
        content: mail.content,
        lacks: mail.lacks,
        senderDomain: 'w.example',
        subject: mail.subject,
        metadata: { order: '8' },
        until: performance.now() + 15_000,
      })
      if (isRefusal(answer)) throw new Error(answer.words)
      return [...answer.ids]
    }
    /** What a worker would read, sign and send. */
    const keptMail = async (id: string) => {
      const read = await readReplaceable(office.world.db, shop.workspaceId, id as MessageId, 0)
      return { source: read?.source, mail: (await read?.mail())?.toString('latin1') }
    }
    const afterGrace = <T>(work: () => Promise<T>) => later(limits.sendAgainGraceSeconds + 60, work)
    const used = () =>
      office.world.value<number>('select month_count from usage where workspace_id = $1', [shop.workspaceId])

    const mails: [string, Buffer, string[]][] = [
      ['a small one', plain, ['ann@example.org']],
      [
        'without Date and Message-ID',
        Buffer.from('From: post@w.example\r\nSubject: Hi\r\n\r\nGood\r\n'),
        ['ann@example.org'],
      ],
      [
        'no UTF-8',
        Buffer.from(`${head}Content-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n`, 'latin1'),
        ['ann@example.org'],
      ],
      [
        'a big one for two',
        Buffer.from(`${head}\r\n${'All work and no play\r\n'.repeat(8_000)}`),
        ['ann@example.org', 'bob@example.org'],
      ],
    ]
    test.each(mails)('goes out as it was kept, its Message-ID too: %s', async (_name, content, recipients) => {
      const [first = ''] = await submitted(content, recipients)
      await lost(first)
      const before = await used()
      const answers = await afterGrace(() => Promise.all([again(first), again(first)]))
      expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202])
      const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
      expect(made.size).toBe(1)
      const [id = ''] = [...made]
      expect(await keptMail(id)).toEqual(await keptMail(first))
      expect(await keptMail(id)).toMatchObject({ source: 'smtp' })
      expect((await keptMail(id)).mail?.endsWith(content.toString('latin1'))).toBe(true)
      expect(await used()).toBe(before + 1)
      expect((await owner.ask('GET', `/messages/${id}/timeline`)).json()).toMatchObject({
        sentAgainFor: first,
        message: { recipient: 'ann@example.org', subject: 'Hi', metadata: { order: '8' } },
      })
      // Its content is its own: it stays when that of the first goes.
      await office.world.db.run('delete from attachments where message_id = $1', [first])
      expect((await keptMail(id)).mail).toContain('From: post@w.example')
    })

    test('is scanned anew, with the signatures of today', async () => {
      const [id = ''] = await submitted(plain)
      await lost(id)
      const eicar = Buffer.from(
        'WDVPIVAlQEFQWzRcUFpYNTQoUF4pN0NDKTd9JEVJQ0FSLVNUQU5EQVJELUFOVElWSVJVUy1URVNULUZJTEUhJEgrSCo=',
        'base64',
      )
      await office.world.db.run('update contents set body_text = $2 where message_id = $1', [
        id,
        `${head}Content-Type: application/octet-stream; name=a.com\r\nContent-Transfer-Encoding: base64\r\n\r\n${eicar.toString('base64')}\r\n`,
      ])
      const before = await messages()
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'attachment_infected' })
      expect(await messages()).toBe(before)
    })

    test('is refused like any other: too early, suppressed, over quota, without its content', async () => {
      const [id = ''] = await submitted(plain, ['carol@example.org'])
      await lost(id)
      const before = await messages()
      expect((await again(id)).json()).toMatchObject({ code: 'conflict' })
      await owner.ask('POST', '/suppressions', { body: { recipient: 'carol@example.org' } })
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'recipient_suppressed' })
      await owner.ask('DELETE', '/suppressions/carol%40example.org')
      await office.world.db.run(`insert into plans (name, monthly) values ('one', 1)`)
      await office.world.db.run(`update workspaces set plan = 'one' where id = $1`, [shop.workspaceId])
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'monthly_limit_reached' })
      await office.world.db.run(`update workspaces set plan = 'unlimited' where id = $1`, [shop.workspaceId])
      await office.world.db.run('delete from contents where message_id = $1', [id])
      expect((await afterGrace(() => again(id))).json<{ error: string }>().error).toMatch(/expired/)
      expect(await messages()).toBe(before)
    })
  })

  test('asked again after its key was forgotten, it still answers the first result', async () => {
    const id = await unknown()
    const first = await later(limits.sendAgainGraceSeconds + 60, () => again(id))
    await office.world.db.run('delete from idempotency_keys where workspace_id = $1', [shop.workspaceId])
    const second = await later(limits.sendAgainGraceSeconds + 60, () => again(id))
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(second.json<{ id: string }>().id).toBe(first.json<{ id: string }>().id)
  })

  test('is charged, and refused like any other: suppressed, blocked, without a plan', async () => {
    const id = await unknown('blocked@example.org')
    await owner.ask('POST', '/suppressions', { body: { recipient: 'blocked@example.org' } })
    expect((await later(2_000, () => again(id))).statusCode).toBe(422)
    await office.world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
    expect((await later(2_000, () => again(id))).json()).toMatchObject({ code: 'workspace_blocked' })
    await office.world.db.run(`update workspaces set status = 'active', plan = 'free' where id = $1`, [
      shop.workspaceId,
    ])
    expect((await later(2_000, () => again(id))).json()).toMatchObject({
      code: 'upgrade_required',
      upgradeUrl: 'http://localhost:3000/upgrade',
    })
  })
})

describe('keys', () => {
  beforeAll(begin)

  test('show their secret once, keep its hash alone, and are refused after they were revoked', async () => {
    const made = (await owner.ask('POST', '/keys', { body: { name: 'server', scopes: ['mail.read'] } })).json<{
      id: string
      key: string
    }>()
    const listed = await owner.ask('GET', '/keys')
    expect(listed.body).not.toContain(made.key)
    expect(await office.world.value('select string_agg(k::text, $$$$) from api_keys k')).not.toContain(made.key)
    expect((await office.withKey(made.key, 'GET', '/messages')).statusCode).toBe(200)
    expect((await owner.ask('DELETE', `/keys/${made.id}`)).json()).toHaveProperty('revokedAt')
    expect((await office.withKey(made.key, 'GET', '/messages')).statusCode).toBe(401)
    const log = await owner.ask('GET', '/audit')
    expect(log.body).toContain('key.created')
    expect(log.body).not.toContain(made.key)
  })

  test('and logins tell who made them: they stay when that person is removed', async () => {
    const developer = await office.signedIn('developer', shop.workspaceId)
    const made = new Map<string, string>()
    for (const [path, body] of [
      ['/keys', { name: 'theirs', scopes: ['mail.read'] }],
      ['/smtp-credentials', { name: 'theirs' }],
    ] as const)
      made.set(path, (await developer.ask('POST', path, { body })).json<{ id: string }>().id)
    const { userId } = (await owner.ask('GET', '/members'))
      .json<{ items: { userId: string; email: string }[] }>()
      .items.find(({ email }) => email === developer.login.email) as { userId: string }
    expect((await owner.ask('DELETE', `/members/${userId}`)).statusCode).toBe(204)
    for (const [path, id] of made) {
      const { items } = (await owner.ask('GET', path)).json<{ items: { id: string; createdBy?: string }[] }>()
      expect(items.find((item) => item.id === id)?.createdBy).toBe(`user:${userId}`)
    }
  })

  test('never get a scope that their maker lacks', async () => {
    const small = await office.key(shop.workspaceId, 'keys.write', 'mail.read')
    const wish = (...wanted: string[]) => office.withKey(small, 'POST', '/keys', { name: 'k', scopes: wanted })
    expect((await wish('mail.read', 'mail.send')).json()).toMatchObject({ code: 'insufficient_scope', field: 'scopes' })
    expect((await wish('mail.read')).statusCode).toBe(201)
    const developer = await office.signedIn('developer', shop.workspaceId)
    const body = { name: 'k', scopes: ['members.write'] }
    expect((await developer.ask('POST', '/keys', { body })).statusCode).toBe(403)
  })

  test('that a key makes, and its SMTP logins, end no later than it, and are named when it is revoked', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    const make = async (as: string | BrowserOf, path: string, body: object) =>
      typeof as === 'string' ? office.withKey(as, 'POST', path, body) : as.ask('POST', path, { body })
    type Made = { readonly id: string; readonly key: string; readonly expiresAt?: string }
    const makes = async (as: string | BrowserOf, name: string, expiresAt?: string) => {
      const body = { name, scopes: [...scopes], ...(expiresAt !== undefined && { expiresAt }) }
      return (await make(as, '/keys', body)).json<Made>()
    }
    const end = '2099-01-01T00:00:00.000Z'
    const leaked = await makes(boss, 'leaked', end)
    expect(await makes(leaked.key, 'later', '2099-01-01T00:00:01Z')).toMatchObject({
      code: 'invalid_request',
      field: 'expiresAt',
      error: expect.stringContaining(end),
    })
    const child = await makes(leaked.key, 'child')
    expect(child.expiresAt).toBe(end)
    expect((await makes(leaked.key, 'sooner', '2098-01-01T00:00:00Z')).expiresAt).toBe('2098-01-01T00:00:00.000Z')
    expect((await make(leaked.key, '/smtp-credentials', { name: 'login' })).json<Made>().expiresAt).toBe(end)
    // What has no end, makes what has none; and what was made in between may be gone already.
    const endless = await makes(boss, 'endless')
    const between = await makes(endless.key, 'between')
    expect(between).not.toHaveProperty('expiresAt')
    const last = await makes(between.key, 'last')
    const login = (await make(between.key, '/smtp-credentials', { name: 'login' })).json<Made>()
    expect(login).not.toHaveProperty('expiresAt')
    const revoke = async (id: string) => (await boss.ask('DELETE', `/keys/${id}`)).json<{ stillValid?: object[] }>()
    expect((await revoke(leaked.id)).stillValid).toMatchObject([
      { kind: 'key', id: child.id },
      { name: 'sooner' },
      { kind: 'smtp_credential' },
    ])
    await revoke(between.id)
    expect((await revoke(endless.id)).stillValid).toEqual([
      { kind: 'key', id: last.id, name: 'last' },
      { kind: 'smtp_credential', id: login.id, name: 'login' },
    ])
    expect(await revoke(last.id)).not.toHaveProperty('stillValid')
  })

  test('may end by themselves, in the future alone', async () => {
    const wish = (expiresAt: string) =>
      owner.ask('POST', '/keys', { body: { name: 'k', scopes: ['mail.read'], expiresAt } })
    expect((await wish('2020-01-01T00:00:00Z')).json()).toMatchObject({ field: 'expiresAt' })
    expect((await wish('2020-13-01T00:00:00Z')).json()).toMatchObject({ field: 'expiresAt' })
    // By the clock that keys expire by.
    const asked: number[] = []
    const at = Date.now() - 3600_000
    for (const now of [at - 1, at]) {
      await office.world.setClock(new Date(now).toISOString())
      asked.push((await wish(new Date(at).toISOString())).statusCode)
    }
    await office.world.setClock()
    expect(asked).toEqual([201, 400])
    // So says the list.
    const { items } = (await owner.ask('GET', '/keys')).json<{ items: { expiresAt?: string; expired: boolean }[] }>()
    expect(items.filter(({ expired }) => expired)).toEqual([
      expect.objectContaining({ expiresAt: new Date(at).toISOString() }),
    ])
    expect((await wish('2099-01-01T00:00:00+02:00')).json()).toMatchObject({ expiresAt: '2098-12-31T22:00:00.000Z' })
    expect((await wish('2098-12-31T23:59:60Z')).json()).toMatchObject({ expiresAt: '2099-01-01T00:00:00.000Z' })
    // In UTC it is in the year 10000, which RFC 3339 cannot write.
    expect((await wish('9999-12-31T23:59:59-00:01')).json()).toMatchObject({ field: 'expiresAt' })
  })
})

describe('SMTP credentials and refused submissions', () => {
  beforeAll(begin)

  test('a password is shown once and its hash alone is kept; who may not send makes no login', async () => {
    const made = (await owner.ask('POST', '/smtp-credentials', { body: { name: 'printer' } })).json<{
      id: string
      password: string
    }>()
    expect((await owner.ask('GET', '/smtp-credentials')).body).not.toContain(made.password)
    expect((await owner.ask('GET', '/audit')).body).not.toContain(made.password)
    expect((await owner.ask('DELETE', `/smtp-credentials/${made.id}`)).json()).toHaveProperty('revokedAt')
    const weak = await office.key(shop.workspaceId, 'smtp-credentials.write')
    const refused = await office.withKey(weak, 'POST', '/smtp-credentials', { name: 'x' })
    expect(refused.json()).toMatchObject({ code: 'insufficient_scope' })
  })

  test('refusals are listed newest first, page by page', async () => {
    for (const [n, domain] of ['a.example', null, 'c.example'].entries())
      await office.world.db.run(
        `insert into refused_submissions (workspace_id, id, source, code, recipient_domain) values ($1, $2, 'rest', 'recipient_suppressed', $3)`,
        [shop.workspaceId, `0199f1c2-0000-7000-8000-00000000000${n}`, domain],
      )
    const first = await list('/refused-submissions?limit=2')
    expect(first.items.map((item) => item['recipientDomain'])).toEqual(['c.example', undefined])
    const rest = await list(`/refused-submissions?limit=2&cursor=${first.next}`)
    expect(rest.items).toEqual([expect.objectContaining({ recipientDomain: 'a.example', source: 'rest' })])
  })

  test('a refusal tells what its sender was told, whose login it was and which request; and is found by code, source and time', async () => {
    const [key, credential] = ['0199f1c2-0000-7000-8000-0000000000aa', '0199f1c2-0000-7000-8000-0000000000bb']
    await office.world.db.run(
      `insert into refused_submissions (workspace_id, id, source, code, field, error, caller_id, request_id) values
         ($1, '0199f1c3-0000-7000-8000-000000000000', 'rest', 'invalid_request', 'subject', 'No.', $2, 'r-1'),
         ($1, '0199f1c4-0000-7000-8000-000000000000', 'smtp', 'mailbox_not_active', null, 'Not yours.', $3, null)`,
      [shop.workspaceId, key, credential],
    )
    const found = async (query: string) => (await list(`/refused-submissions?${query}`)).items
    expect(await found('code=invalid_request')).toEqual([
      expect.objectContaining({ field: 'subject', error: 'No.', keyId: key, requestId: 'r-1' }),
    ])
    expect(await found('source=smtp')).toEqual([
      expect.objectContaining({ error: 'Not yours.', smtpCredentialId: credential }),
    ])
    expect(await found('from=2100-01-01T00:00:00Z')).toEqual([])
    expect(await found('to=2100-01-01T00:00:00Z&code=mailbox_not_active')).toHaveLength(1)
    const backwards = await owner.ask('GET', '/refused-submissions?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z')
    expect(backwards.json()).toMatchObject({ code: 'invalid_request', field: 'from' })
  })
})

describe('domains and mailboxes', () => {
  beforeAll(begin)

  test('are added with the records to set, changed, and removed while nothing depends on them', async () => {
    const domain = (await owner.ask('POST', '/domains', { body: { name: 'Example.ORG' } })).json<{
      id: string
      records: unknown[]
    }>()
    expect(domain).toMatchObject({ name: 'example.org', status: 'pending' })
    expect(domain.records.length).toBeGreaterThan(3)
    expect((await owner.ask('POST', '/domains', { body: { name: 'example.org' } })).statusCode).toBe(409)
    expect((await owner.ask('POST', '/domains', { body: { name: 'no domain' } })).json()).toMatchObject({
      field: 'name',
    })
    const mailbox = (await owner.ask('POST', '/mailboxes', { body: { address: 'a@example.org' } })).json<{
      id: string
    }>()
    expect((await owner.ask('POST', '/mailboxes', { body: { address: 'a@elsewhere.org' } })).statusCode).toBe(400)
    const change = (body: object) => owner.ask('PATCH', `/mailboxes/${mailbox.id}`, { body })
    expect((await change({ name: 'Shop', status: 'disabled' })).json()).toMatchObject({
      name: 'Shop',
      status: 'disabled',
    })
    expect((await change({ name: '' })).json()).not.toHaveProperty('name')
    expect((await change({ name: 'a\nb' })).json()).toMatchObject({ field: 'name' })
    expect((await owner.ask('DELETE', `/domains/${domain.id}`)).statusCode).toBe(409)
    const free = (await owner.ask('POST', '/domains', { body: { name: 'free.example' } })).json<{ id: string }>()
    expect((await owner.ask('DELETE', `/domains/${free.id}`)).statusCode).toBe(204)
    expect((await owner.ask('GET', `/domains/${free.id}`)).statusCode).toBe(404)
    expect((await audit()).slice(1)).toEqual(
      ['domain.added', 'mailbox.added', 'mailbox.changed', 'mailbox.changed', 'domain.added', 'domain.removed'].map(
        (action) => expect.stringMatching(new RegExp(`^${action} user:`)) as string,
      ),
    )
  })
})

describe('the webhook endpoint', () => {
  beforeAll(begin)

  test('every change of it is in the audit log with who made it; neither a secret nor the path of the address is', async () => {
    const url = 'http://127.0.0.1:9/hooks/secret-path?token=secret-token'
    const secrets: unknown[] = []
    const change = async (method: string, path: string, body?: object) => {
      const answer = await owner.ask(method, `/webhook${path}`, { ...(body && { body }) })
      expect(answer.statusCode).toBe(200)
      secrets.push(answer.json<{ secret?: string }>().secret)
    }
    expect((await owner.ask('POST', '/webhook/rotate')).statusCode).toBe(404)
    await change('PUT', '', { url })
    await change('PUT', '', { url: `${url}&other`, events: ['message.sent'] })
    expect((await list('/audit?limit=1')).items[0]).toMatchObject({
      target: '127.0.0.1:9',
      facts: { url: 'changed', events: ['message.sent'] },
    })
    await change('PUT', '', { url })
    await change('PUT', '', { url, events: ['message.sent'] })
    expect((await list('/audit?limit=1')).items[0]?.facts).toEqual({ events: ['message.sent'] })
    await change('POST', '/disable')
    await change('POST', '/enable')
    await change('POST', '/rotate')
    await change('POST', '/promote')
    expect((await owner.ask('POST', '/webhook/promote')).statusCode).toBe(409)
    expect((await office.withKey(key, 'PUT', '/webhook', { url })).statusCode).toBe(200)
    expect((await audit()).filter((line) => line.startsWith('webhook.')).map((line) => line.split(':')[0])).toEqual([
      'webhook.created user',
      'webhook.changed user',
      'webhook.changed user',
      'webhook.changed user',
      'webhook.disabled user',
      'webhook.enabled user',
      'webhook.secret_prepared user',
      'webhook.secret_promoted user',
      'webhook.changed key',
    ])
    expect((await list('/audit?limit=1')).items[0]).toMatchObject({
      actorName: 'test',
      target: '127.0.0.1:9',
      facts: { events: ['message.sent'] },
    })
    const { body } = await owner.ask('GET', '/audit')
    for (const secret of ['secret-path', 'secret-token', ...secrets.filter((each) => each !== undefined)])
      expect(body).not.toContain(secret)
  })

  test('a body that is not called JSON is refused, as everywhere', async () => {
    const headers = { 'content-type': 'text/plain' }
    for (const [method, path] of [
      ['PUT', '/webhook'],
      ['POST', '/webhook/replay'],
    ] as const)
      expect((await owner.ask(method, path, { body: {}, headers })).json()).toMatchObject({
        code: 'invalid_request',
        field: 'Content-Type',
      })
  })
})

describe('suppressions', () => {
  beforeAll(begin)

  test('come in and out as CSV, all or nothing', async () => {
    const csv = 'email,reason\r\nann@example.org,hard_bounce\r\n"bob@example.org",\r\nANN@example.org,manual\r\n'
    const facts = { reasons: { hard_bounce: 1, complaint: 0, manual: 2 }, ignoredColumns: [] }
    for (const more of [{ dryRun: true }, {}])
      expect((await owner.ask('POST', '/suppressions/import', { body: { csv, ...more } })).json()).toEqual({
        added: 2,
        alreadyThere: 0,
        ...facts,
      })
    const wrong = await owner.ask('POST', '/suppressions/import', { body: { csv: 'good@example.org\nbad address\n' } })
    expect(wrong.json()).toMatchObject({ code: 'invalid_request', field: 'csv' })
    const out = await owner.ask('GET', '/suppressions.csv')
    expect(out.headers['content-disposition']).toMatch(/^attachment/)
    expect(
      out.body
        .split('\r\n')
        .slice(0, 3)
        .map((line) => line.split(',').slice(0, 2)),
    ).toEqual([
      ['recipient', 'reason'],
      ['ann@example.org', 'hard_bounce'],
      ['bob@example.org', 'manual'],
    ])
    // What a stranger's server said is no formula for a spreadsheet.
    await office.world.db.run(
      `update suppressions set evidence = '=HYPERLINK("https://evil.example")' where recipient_key = $1`,
      ['ann@example.org'],
    )
    expect((await owner.ask('GET', '/suppressions.csv')).body).toContain(`,"'=HYPERLINK(""https://evil.example"")"`)
    const large = `${'x'.repeat(60)}@example.org\n`.repeat(5_000)
    const body = { csv: large, reason: 'complaint' }
    expect((await owner.ask('POST', '/suppressions/import', { body })).json()).toMatchObject({
      reasons: { complaint: 5_000 },
      added: 1,
      alreadyThere: 0,
    })
  })

  test('are found by their beginning and their reason, page by page', async () => {
    expect((await list('/suppressions?prefix=BO')).items).toEqual([
      expect.objectContaining({ recipient: 'bob@example.org' }),
    ])
    expect((await list('/suppressions?reason=hard_bounce')).items).toHaveLength(1)
    const first = await list('/suppressions?limit=2')
    const rest = await list(`/suppressions?limit=2&cursor=${first.next}`)
    expect([...first.items, ...rest.items].map((item) => (item['recipient'] as string).slice(0, 3))).toEqual([
      'ann',
      'bob',
      'xxx',
    ])
  })

  test('what one rule suppressed in a time is taken back at once', async () => {
    await office.world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule) values ($1, 'u@b.co', 'u@b.co', 'hard_bounce', 'wrong-rule')`,
      [shop.workspaceId],
    )
    const undo = (since: string) => owner.ask('POST', '/suppressions/undo', { body: { rule: 'wrong-rule', since } })
    expect((await undo('2099-01-01T00:00:00Z')).json()).toEqual({ removed: 0 })
    expect((await undo('2020-01-01T00:00:00Z')).json()).toEqual({ removed: 1 })
    expect((await undo('2020-13-01T00:00:00Z')).json()).toMatchObject({ field: 'since' })
    const [entry] = (await list('/audit?limit=1')).items
    expect(entry?.['facts']).toEqual({ since: '2020-01-01T00:00:00.000Z', recipients: ['u@b.co'] })
  })

  test('are removed with what is known about them written down', async () => {
    expect((await owner.ask('DELETE', '/suppressions/ANN%40example.org')).statusCode).toBe(204)
    expect((await owner.ask('DELETE', '/suppressions/ann%40example.org')).statusCode).toBe(404)
    const [entry] = (await list('/audit?limit=1')).items
    expect(entry).toMatchObject({
      action: 'suppression.removed',
      target: 'ann@example.org',
      facts: { reason: 'hard_bounce' },
    })
  })
})

describe('usage', () => {
  beforeAll(begin)

  test('counts each event once in its hour, folded or not, with the time that delivery took', async () => {
    for (let n = 0; n < 5; n++) await send(`a${n}@example.org`)
    const claims = await office.world.claimed(shop, [{ armed: true }, { armed: true }])
    const ending = (status: string, type: string) => ({ status, type })
    for (const [n, { status, type }] of [
      ending('sent', 'message.sent'),
      ending('delivery_unknown', 'message.delivery_unknown'),
    ].entries())
      await office.world.db.run(
        `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2::uuid, 3, $3, $4, 0, to_timestamp(('x' || substr(replace($2::uuid::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) + interval '4 seconds')`,
        [shop.workspaceId, claims[n]?.id, type, status],
      )
    const series = async () =>
      (await owner.ask('GET', '/usage/series')).json<{ totals: Record<string, unknown>; points: unknown[] }>()
    await office.world.setClock(new Date(Date.now() + 60_000).toISOString()) // behind them, also where the next hour has begun meanwhile
    const before = await series()
    expect(before.totals).toMatchObject({ accepted: 7, sent: 1, unknown: 1, failed: 0, delivered: 0 })
    const { p50 } = before.totals['latencyMs'] as { p50: number }
    expect(p50).toBeGreaterThan(4_000 * 0.8)
    expect(p50).toBeLessThan(4_000 * 1.2)
    expect([24, 25]).toContain(before.points.length)
    await Promise.all([makeFold()(office.world.db), makeFold()(office.world.anotherNode())])
    expect(await office.world.value('select count(*)::integer from fresh_counts')).toBe(0)
    expect((await series()).totals).toEqual(before.totals)
    await makeFold()(office.world.db)
    // Until the end of this hour, by the clock of those who count.
    const hour = Math.ceil(Date.now() / 3600_000) * 3600_000 + 5 * 3600_000
    await office.world.setClock(new Date(hour - 1).toISOString())
    const { to } = (await owner.ask('GET', '/usage/series')).json<{ to: string }>()
    await office.world.setClock()
    expect(to).toBe(new Date(hour).toISOString())
    expect((await owner.ask('GET', '/usage/series?step=day')).json()).toMatchObject({
      step: 'day',
      totals: before.totals,
    })
  })

  test('windows are those of admission', async () => {
    expect((await owner.ask('GET', '/usage')).json()).toMatchObject({
      windows: [
        { window: 'hour', used: 5 },
        { window: 'day', used: 5 },
        { window: 'month', used: 5 },
      ],
    })
  })

  test('too many points and times that do not fit are refused', async () => {
    for (const query of ['from=2020-01-01T00:00:00Z', 'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', 'step=week'])
      expect((await owner.ask('GET', `/usage/series?${query}`)).statusCode).toBe(400)
  })
})

describe('members', () => {
  beforeAll(begin)
  const inviting = (email: string, role: string) => owner.ask('POST', '/invitations', { body: { email, role } })

  test('come in by a mailed link that proves their address, with a new account or their own', async () => {
    const many = office.sent.length
    expect((await inviting('new@people.example', 'developer')).statusCode).toBe(201)
    const token = tokenOf(await office.mail(many + 1))
    expect(await office.world.value('select string_agg(i::text, $$$$) from invitations i')).not.toContain(token)
    const browser = office.browser()
    const accept = (body: object) => browser.ask('POST', '/invitations/accept', { body: { token, ...body } })
    expect((await browser.ask('POST', '/invitations/lookup', { body: { token } })).json()).toMatchObject({
      email: 'new@people.example',
      role: 'developer',
      workspaceId: shop.workspaceId,
      hasAccount: false,
    })
    expect((await accept({})).json()).toMatchObject({ field: 'password' })
    expect((await accept({ password: 'four little words here' })).json()).toMatchObject({
      email: 'new@people.example',
      workspaces: [{ workspaceId: shop.workspaceId, role: 'developer' }],
    })
    expect((await accept({ password: 'four little words here' })).statusCode).toBe(401)
    expect((await browser.ask('GET', '/messages')).statusCode).toBe(200)

    const known = await office.login()
    const stranger = await office.signedIn('viewer', (await office.sender()).workspaceId)
    await inviting(known.email, 'viewer')
    const second = tokenOf(await office.mail(many + 2))
    const join = (who: BrowserOf) =>
      who.ask('POST', '/invitations/accept', { body: { token: second, password: 'x'.repeat(12) } })
    expect((await join(office.browser())).json()).toMatchObject({ code: 'not_signed_in' })
    expect((await join(stranger)).json()).toMatchObject({ code: 'not_signed_in' })
    const theirs = office.browser()
    await theirs.ask('POST', '/session', { body: { email: known.email, password: known.password } })
    expect((await join(theirs)).statusCode).toBe(200)
    expect((await inviting(known.email, 'viewer')).statusCode).toBe(409)
  })

  test('a blocked workspace mails no invitations: they are its words, to whomever it likes, from the address of the installation', async () => {
    const abusive = await office.sender()
    const spammer = await office.signedIn('owner', abusive.workspaceId)
    const ask = () => spammer.ask('POST', '/invitations', { body: { email: 'victim@people.example', role: 'viewer' } })
    await office.world.db.run(`update workspaces set status = 'blocked' where id = $1`, [abusive.workspaceId])
    const [many, answer] = [office.sent.length, await ask()]
    expect([answer.statusCode, answer.json<{ code: string }>().code]).toEqual([403, 'workspace_blocked'])
    expect((await spammer.ask('GET', '/invitations')).json()).toMatchObject({ items: [] })
    await office.world.db.run(`update workspaces set status = 'active' where id = $1`, [abusive.workspaceId])
    expect((await ask()).statusCode).toBe(201)
    await office.mail(many + 1)
    expect(office.sent).toHaveLength(many + 1)
  })

  test('an invitation that was withdrawn, replaced or is too old is worth nothing', async () => {
    const many = office.sent.length
    await inviting('late@people.example', 'viewer')
    const { id } = (await inviting('late@people.example', 'developer')).json<{ id: string }>()
    const [first, second] = [await office.mail(many + 1), await office.mail(many + 2)]
    const look = async (mail: typeof first) =>
      (await office.browser().ask('POST', '/invitations/lookup', { body: { token: tokenOf(mail) } })).statusCode
    expect(await look(first)).toBe(401)
    expect(await look(second)).toBe(200)
    await office.world.setClock(new Date(Date.now() + 8 * 86_400_000).toISOString())
    expect(await look(second)).toBe(401)
    await office.world.setClock()
    expect((await owner.ask('DELETE', `/invitations/${id}`)).statusCode).toBe(204)
    expect(await look(second)).toBe(401)
  })

  test('tell where the mail of an invitation goes: whoever invites sees that it lies in the sandbox, and no token; only operators, and who is there, see of which workspace', async () => {
    const mail = async (who: BrowserOf = owner) => (await who.ask('GET', '/invitations')).json<{ mail: object }>().mail
    expect(await mail()).toEqual({ goes: 'nowhere' })
    const place = await office.sender()
    await office.world.db.transaction((tx) => saveSystemMailbox(tx, place.workspaceId, place.mailboxId))
    expect(await mail()).toEqual({ goes: 'sandbox' })
    const known = { goes: 'sandbox', workspaceId: place.workspaceId }
    expect(await mail(await office.signedIn('viewer', shop.workspaceId, true))).toEqual(known)
    expect(await mail(await office.signedIn('viewer', place.workspaceId))).toEqual(known)
    const key = await office.key(shop.workspaceId, 'members.read')
    expect((await office.withKey(key, 'GET', '/invitations')).json()).toMatchObject({ mail: { goes: 'sandbox' } })
    expect((await office.withKey(key, 'GET', '/invitations')).body).not.toContain(place.workspaceId)
    const answer = await inviting('told@people.example', 'viewer')
    expect(Object.keys(answer.json<object>()).toSorted()).toEqual(['createdAt', 'email', 'expiresAt', 'id', 'role'])
    await setWorkspace(office.world.db, office.office.vault, place.workspaceId, { route: 'mx' })
    expect(await mail()).toEqual({ goes: 'out' })
    await office.world.db.run('delete from installation where name in ($1, $2)', ['system_workspace', 'system_mailbox'])
  })

  test('an invitation that its maker could not make any more is withdrawn: who is to be removed invites herself first', async () => {
    const place = await office.sender()
    const first = await office.signedIn('owner', place.workspaceId)
    const second = await office.signedIn('owner', place.workspaceId)
    const admin = await office.signedIn('admin', place.workspaceId)
    const invites = async (who: BrowserOf, email: string, role: string) =>
      expect((await who.ask('POST', '/invitations', { body: { email, role } })).statusCode).toBe(201)
    const open = async () =>
      (await first.ask('GET', '/invitations')).json<{ items: { email: string }[] }>().items.map((each) => each.email)
    const many = office.sent.length
    await invites(admin, 'herself@people.example', 'admin')
    const token = tokenOf(await office.mail(many + 1))
    await invites(second, 'boss@people.example', 'owner')
    await invites(second, 'clerk@people.example', 'viewer')
    await invites(first, 'other@people.example', 'owner')

    expect((await first.ask('DELETE', `/members/${admin.login.id}`)).statusCode).toBe(204)
    expect(await open()).toEqual(['boss@people.example', 'clerk@people.example', 'other@people.example'])
    const late = await office
      .browser()
      .ask('POST', '/invitations/accept', { body: { token, password: 'x'.repeat(12) } })
    expect(late.json()).toMatchObject({ code: 'wrong_credentials' })
    // An admin still invites viewers.
    const demoted = (role: string) => first.ask('PATCH', `/members/${second.login.id}`, { body: { role } })
    expect((await demoted('admin')).statusCode).toBe(200)
    expect(await open()).toEqual(['clerk@people.example', 'other@people.example'])
    expect((await demoted('developer')).statusCode).toBe(200)
    expect(await open()).toEqual(['other@people.example'])
    const withdrawn = await office.world.db.run<{ actor: string; target: string }>(
      `select actor, target from audit_log where workspace_id = $1 and action = 'invitation.withdrawn' order by target`,
      [place.workspaceId],
    )
    const actor = `user:${first.login.id}`
    expect(withdrawn).toEqual(['boss', 'clerk', 'herself'].map((name) => ({ actor, target: `${name}@people.example` })))
  })

  test('an invitation that a key has made is worth nothing behind its end: who holds a leaked one invites herself first', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    const key = async (more: object) => {
      const answer = await boss.ask('POST', '/keys', { body: { name: 'k', scopes: [...scopes], ...more } })
      return answer.json<{ id: string; key: string }>()
    }
    const invites = async (secret: string, email: string) => {
      const many = office.sent.length
      const answer = await office.withKey(secret, 'POST', '/invitations', { email, role: 'admin' })
      expect(answer.statusCode).toBe(201)
      return tokenOf(await office.mail(many + 1))
    }
    const tries = async (token: string) => {
      const look = await office.browser().ask('POST', '/invitations/lookup', { body: { token } })
      const body = { token, password: 'four little words here' }
      const accept = await office.browser().ask('POST', '/invitations/accept', { body })
      return [look, accept].map((answer) => ({ status: answer.statusCode, says: answer.json<object>() }))
    }
    const open = async () =>
      (await boss.ask('GET', '/invitations')).json<{ items: { email: string }[] }>().items.map((each) => each.email)
    const like = (answers: Awaited<ReturnType<typeof tries>>) =>
      answers.map(({ status, says }) => ({ status, says: { ...says, requestId: '' } }))
    const unknown = like(await tries('x'.repeat(43)))
    expect(unknown.map(({ status }) => status)).toEqual([401, 401])

    const [leaked, other] = [await key({}), await key({})]
    const token = await invites(leaked.key, 'herself@keys.example')
    await invites(other.key, 'clerk@keys.example')
    expect((await boss.ask('DELETE', `/keys/${leaked.id}`)).statusCode).toBe(200)
    expect(await open()).toEqual(['clerk@keys.example'])
    expect(like(await tries(token))).toEqual(unknown)
    const withdrawn = `select actor || ' ' || target from audit_log where workspace_id = $1 and action = 'invitation.withdrawn'`
    expect(await office.world.value(withdrawn, [place.workspaceId])).toBe(`user:${boss.login.id} herself@keys.example`)

    const brief = await key({ expiresAt: new Date(Date.now() + 3600_000).toISOString() })
    const late = await invites(brief.key, 'later@keys.example')
    await office.world.setClock(new Date(Date.now() + 2 * 3600_000).toISOString())
    const answers = like(await tries(late))
    const listed = await open()
    await office.world.setClock()
    expect(answers).toEqual(unknown)
    expect(listed).toEqual(['clerk@keys.example'])
    expect(await open()).toEqual(['clerk@keys.example', 'later@keys.example'])
    expect((await tries(late)).map(({ status }) => status)).toEqual([200, 200])
  })

  test('nothing comes of a key that is revoked while it makes an invitation, a key or an SMTP login', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    for (const [path, body] of [
      ['/keys', { name: 'k', scopes: ['mail.read'] }],
      ['/smtp-credentials', { name: 'kept' }],
      ['/invitations', { email: 'meanwhile@keys.example', role: 'viewer' }],
    ] as const) {
      const { id, key } = (await boss.ask('POST', '/keys', { body: { name: 'k', scopes: [...scopes] } })).json<{
        id: string
        key: string
      }>()
      const revoking = await office.world.session()
      await revoking.query('begin')
      await revoking.query('select from workspaces where id = $1 for update', [place.workspaceId])
      await revoking.query('update api_keys set revoked_at = app_now() where id = $1', [id])
      const answer = office.withKey(key, 'POST', path, body)
      const waits = `select count(*)::integer from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and query like '%from workspaces%'`
      while ((await office.world.value<number>(waits)) === 0) continue
      await revoking.query('commit')
      await revoking.end()
      expect((await answer).json(), path).toMatchObject({ code: 'insufficient_scope' })
    }
  })

  test('an invitation that is withdrawn while it is being accepted is worth nothing either', async () => {
    const many = office.sent.length
    const person = await office.login()
    const { id } = (await inviting(person.email, 'admin')).json<{ id: string }>()
    const token = tokenOf(await office.mail(many + 1))
    const browser = office.browser()
    await browser.ask('POST', '/session', { body: { email: person.email, password: person.password } })
    const withdrawing = await office.world.session()
    await withdrawing.query('begin')
    await withdrawing.query('delete from invitations where id = $1', [id])
    const accepted = browser.ask('POST', '/invitations/accept', { body: { token } })
    const waits = `select count(*)::integer from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and query like '%delete from invitations%'`
    while ((await office.world.value<number>(waits)) === 0) continue
    await withdrawing.query('commit')
    expect((await accepted).statusCode).toBe(401)
    expect((await browser.ask('GET', '/session')).json()).toMatchObject({ workspaces: [] })
  })

  test('only so many mails an hour go to addresses that members choose', async () => {
    const place = await office.sender()
    const admin = await office.signedIn('admin', place.workspaceId)
    const ask = (n: number) =>
      admin.ask('POST', '/invitations', { body: { email: `many${n % 3}@people.example`, role: 'viewer' } })
    for (let n = 0; n < limits.invitationsPerHourMax; n++) expect((await ask(n)).statusCode).toBe(201)
    const late = await ask(0)
    expect(late.statusCode).toBe(429)
    expect(late.headers['retry-after']).toBe('3600')
  })

  test('only owners make, change and remove owners, and one is always left', async () => {
    const place = await office.sender()
    const first = await office.signedIn('owner', place.workspaceId)
    const admin = await office.signedIn('admin', place.workspaceId)
    const role = (who: BrowserOf, id: string, to: string) => who.ask('PATCH', `/members/${id}`, { body: { role: to } })
    expect((await role(admin, admin.login.id, 'owner')).json()).toMatchObject({ code: 'insufficient_scope' })
    expect((await role(admin, first.login.id, 'viewer')).statusCode).toBe(403)
    expect((await admin.ask('DELETE', `/members/${first.login.id}`)).statusCode).toBe(403)
    expect(
      (await admin.ask('POST', '/invitations', { body: { email: 'x@people.example', role: 'owner' } })).statusCode,
    ).toBe(403)
    // Nor does an invitation of the same address take the place of an owner's.
    const { id } = (
      await first.ask('POST', '/invitations', { body: { email: 'next@people.example', role: 'owner' } })
    ).json<{ id: string }>()
    expect((await admin.ask('DELETE', `/invitations/${id}`)).statusCode).toBe(403)
    expect(
      (await admin.ask('POST', '/invitations', { body: { email: 'Next@people.example', role: 'viewer' } })).statusCode,
    ).toBe(403)
    const strong = await office.key(place.workspaceId, ...scopes)
    expect((await office.withKey(strong, 'PATCH', `/members/${admin.login.id}`, { role: 'owner' })).statusCode).toBe(
      403,
    )
    expect((await role(first, first.login.id, 'admin')).statusCode).toBe(409)
    expect((await first.ask('DELETE', `/members/${first.login.id}`)).statusCode).toBe(409)
    expect((await role(first, admin.login.id, 'owner')).statusCode).toBe(200)
    // Two owners who remove each other at once: one stays.
    const both = await Promise.all([
      first.ask('DELETE', `/members/${admin.login.id}`),
      admin.ask('DELETE', `/members/${first.login.id}`),
    ])
    expect(both.filter(({ statusCode }) => statusCode === 204).length).toBe(1)
    expect(
      await office.world.value(`select count(*)::integer from members where workspace_id = $1 and role = 'owner'`, [
        place.workspaceId,
      ]),
    ).toBe(1)
  })

  test('nobody gives a role that can do more than they can', async () => {
    const weak = await office.key(shop.workspaceId, 'members.write', 'mail.read')
    const answer = await office.withKey(weak, 'POST', '/invitations', { email: 'x@people.example', role: 'viewer' })
    expect(answer.json()).toMatchObject({ code: 'insufficient_scope' })
  })
})

test('nobody learns which names other workspaces have: what members call theirs is their own, and operators keep their name for it', async () => {
  const [mine, foreign] = [await office.sender(), await office.sender()]
  const boss = await office.signedIn('owner', mine.workspaceId)
  const neighbour = await office.signedIn('owner', foreign.workspaceId)
  const nameOf = async (who: BrowserOf) => (await who.ask('GET', '/workspace')).json<{ name: string }>().name
  const [before, theirs] = [await nameOf(boss), await nameOf(neighbour)]
  const renamed = async (name: string) => {
    const answer = await boss.ask('PATCH', '/workspace', { body: { name } })
    return [answer.statusCode, answer.json<{ name: string }>().name]
  }
  for (const name of ['Nobody has this', theirs]) expect(await renamed(name)).toEqual([200, name])
  expect((await boss.ask('GET', '/session')).json()).toMatchObject({ workspaces: [{ name: theirs }] })
  const many = office.sent.length
  await boss.ask('POST', '/invitations', { body: { email: 'named@people.example', role: 'viewer' } })
  const mail = await office.mail(many + 1)
  expect(mail.subject).toBe(`Invitation to ${theirs}`)
  const look = await office.browser().ask('POST', '/invitations/lookup', { body: { token: tokenOf(mail) } })
  expect(look.json()).toMatchObject({ workspaceName: theirs })

  const operator = await office.signedIn('owner', mine.workspaceId, true)
  const path = `/operator/workspaces?text=${encodeURIComponent(theirs)}`
  const { items } = (await operator.ask('GET', path)).json<{
    items: { id: string; name: string; ownName?: string }[]
  }>()
  const shown = new Map(items.map(({ id, name, ownName }) => [id, [name, ownName]]))
  expect(shown.get(mine.workspaceId)).toEqual([before, theirs])
  expect(shown.get(foreign.workspaceId)).toEqual([theirs, undefined])
  // The operators' own name again is no other one.
  expect(await renamed(before)).toEqual([200, before])
  expect(await office.world.value('select own_name from workspaces where id = $1', [mine.workspaceId])).toBeNull()
})

describe('the sandbox', () => {
  beforeAll(begin)

  test('shows the mails of the own messages, parsed and as they came, and nothing that could run in the browser', async () => {
    const [claim] = await office.world.claimed(shop, [{ armed: true }])
    const keys = makeReturnPathKeys(office.world.db, office.vault)
    const keep = makeSandboxInbox(office.world.db, keys)
    const token = makeToken(await keys.at(new Date()), claim?.id ?? '', shop.workspaceId)
    const html = '<script>alert(1)</script>'
    const content = Buffer.from(`Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nContent-Type: text/html\r\n\r\n${html}\r\n`)
    await keep({ envelopeFrom: `${token}@node.test`, recipient: 'ann@example.org', content })
    await keep({
      envelopeFrom: 'a@b.co',
      recipient: 'foreign@example.org',
      content: Buffer.from('Subject: x\r\n\r\n'),
    })
    const { items } = await list('/sandbox')
    expect(items).toEqual([
      expect.objectContaining({ recipient: 'ann@example.org', subject: 'Grüße', messageId: claim?.id }),
    ])
    const read = await owner.ask('GET', `/sandbox/${items[0]?.id}`)
    expect(read.headers['content-type']).toMatch(/^application\/json/)
    expect(read.json<{ html: string }>().html).toContain(html)
    const raw = await owner.ask('GET', `/sandbox/${items[0]?.id}/raw`)
    expect(raw.headers).toMatchObject({
      'content-type': 'message/rfc822',
      'content-disposition': 'attachment; filename="mail.eml"',
      'x-content-type-options': 'nosniff',
    })
    expect(raw.rawPayload.equals(content)).toBe(true)
  })

  describe('is searched', () => {
    let place: Sender
    let reader: BrowserOf
    /** The message and the mail of each. */
    const ids: Record<string, { readonly message: string; readonly mail: string }> = {}
    const find = async (query: string) => (await reader.ask('GET', `/sandbox?${query}`)).json<Listed>()
    const recipients = ['Ann@example.org', 'bob@example.org', 'carol@sales.example.net']
    beforeAll(async () => {
      place = await office.sender()
      reader = await office.signedIn('viewer', place.workspaceId)
      const keys = makeReturnPathKeys(office.world.db, office.vault)
      const keep = makeSandboxInbox(office.world.db, keys)
      const claims = await office.world.claimed(
        place,
        recipients.map((recipient) => ({ recipient, armed: true })),
      )
      for (const [at, recipient] of recipients.entries()) {
        const message = claims[at]?.id ?? ''
        await office.world.db.run(`update messages set subject = $2 where id = $1`, [message, `Invoice Nº ${at} ΟΔΟΣ`])
        const token = makeToken(await keys.at(new Date()), message, place.workspaceId)
        await keep({ envelopeFrom: `${token}@node.test`, recipient, content: Buffer.from('Subject: x\r\n\r\n') })
        const [newest] = (await find('limit=1')).items
        ids[recipient] = { message, mail: newest?.id ?? '' }
      }
    })

    test.each([
      ['recipient=ann%40EXAMPLE.org', [0]],
      ['recipient=nobody%40example.org', []],
      ['text=EXAMPLE.org', [1, 0]],
      ['text=carol', [2]],
      ['text=invoice%20n%C2%BA%201', [1]],
      ['text=INVOICE', [2, 1, 0]],
      ['text=%CE%9F%CE%94%CE%9F%CE%A3', [2, 1, 0]],
      ['text=%25', []],
      ['text=invoice&recipient=bob%40example.org', [1]],
    ])('by %s', async (query, expected) => {
      const wanted = expected.map((at) => recipients[at])
      expect((await find(query)).items.map(({ recipient }) => recipient)).toEqual(wanted)
      const paged = await find(`${query}&limit=1`)
      expect(paged.items.map(({ recipient }) => recipient)).toEqual(wanted.slice(0, 1))
      if (wanted.length > 1)
        expect((await find(`${query}&limit=1&cursor=${paged.next}`)).items[0]?.['recipient']).toBe(wanted[1])
    })

    test('by its message, whose story leads to the mail', async () => {
      const { message, mail } = ids['bob@example.org'] ?? { message: '', mail: '' }
      expect((await find(`messageId=${message}`)).items).toEqual([
        expect.objectContaining({ id: mail, messageId: message }),
      ])
      const story = () => reader.ask('GET', `/messages/${message}/timeline`)
      expect((await story()).json()).toMatchObject({ sandboxMailId: mail })
      await office.world.db.run('delete from sandbox_mail where id = $1', [mail])
      expect((await story()).json()).not.toHaveProperty('sandboxMailId')
    })

    test('for a whole address, or told how to find a part of one', async () => {
      expect((await reader.ask('GET', '/sandbox?recipient=ann')).json()).toMatchObject({ field: 'recipient' })
    })

    test('within a bounded number of mails, and its cursor goes on behind those', async () => {
      const other = await office.sender()
      await office.world.db.run(
        `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
         select (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, now(), '',
                case i when 3 then 'needle' else 'hay' end || '@example.org', '', $1 from generate_series(1, $2::integer) i`,
        [other.workspaceId, limits.sandboxScannedMax + 500],
      )
      reader = await office.signedIn('viewer', other.workspaceId)
      const first = await find('text=needle')
      expect(first.items).toEqual([])
      const second = await find(`text=needle&cursor=${first.next}`)
      expect(second.items).toEqual([expect.objectContaining({ recipient: 'needle@example.org' })])
      expect(second.next).toBeUndefined()
    })
  })
})

describe('operators', () => {
  test('block a workspace and change its plan and route; its members see it, and no login of the route', async () => {
    await begin()
    const operator = await office.signedIn('viewer', shop.workspaceId, true)
    const change = (body: object) => operator.ask('PATCH', `/operator/workspaces/${shop.workspaceId}`, { body })
    const route = 'smtp://user:secret-password@relay.example:587'
    const answer = await change({ status: 'blocked', plan: 'starter', route })
    expect(answer.json()).toMatchObject({ status: 'blocked', plan: 'starter', route: 'smtp://relay.example:587' })
    expect((await change({ plan: 'no such' })).json()).toMatchObject({ code: 'invalid_request', field: 'plan' })
    expect(
      (await operator.ask('PATCH', '/operator/workspaces/0199f1c2-0000-7000-8000-00000000dead', { body: {} }))
        .statusCode,
    ).toBe(404)
    const name = `Renamed ${shop.workspaceId}`
    expect((await change({ name })).json()).toMatchObject({ id: shop.workspaceId, name, plan: 'starter' })
    const body = { name: `${name} not` }
    expect((await operator.ask('POST', '/operator/workspaces', { body })).statusCode).toBe(201)
    const refused = await change(body)
    expect([refused.statusCode, refused.json()]).toMatchObject([409, { code: 'conflict', field: 'name' }])
    const log = await owner.ask('GET', '/audit')
    expect(log.body).toContain('workspace.changed')
    expect(log.body).not.toContain('secret-password')
    const limits = { hourly: 5, daily: null, monthly: 9 }
    const setPlan = (body: object) => operator.ask('PUT', '/operator/plans/tiny', { body })
    expect((await setPlan({ ...limits, mustBeNew: true })).json()).toMatchObject(limits)
    // Made twice it would take the place of the first.
    const again = await setPlan({ hourly: 500, mustBeNew: true })
    expect(again.statusCode).toBe(409)
    expect(again.json()).toMatchObject({ code: 'conflict', field: 'name' })
    expect((await setPlan({ daily: 7 })).json()).toMatchObject({ ...limits, daily: 7 })
    expect((await operator.ask('GET', '/operator/workspaces?text=W')).json<Listed>().items.length).toBeGreaterThan(0)
    const capitals = { name: 'İSTANBUL ΟΔΟΣ' }
    await operator.ask('POST', '/operator/workspaces', { body: capitals })
    const named = await operator.ask('GET', `/operator/workspaces?text=${encodeURIComponent(capitals.name)}`)
    expect(named.json()).toMatchObject({ items: [capitals] })
  })
})
