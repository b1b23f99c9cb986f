// Messages as people look for them and read them: the search, the webhooks in a timeline, the content.
import { beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../config.ts'
import { isRefusal } from '../../domain/refusal.ts'
import { scopes } from '../../domain/scopes.ts'
import { parseAddress, type EmailAddress } from '../../mail/address.ts'
import type { Sender } from '../../store/store.test-kit.ts'
import type { BrowserOf } from '../office.test-kit.ts'
import { begin, list, office, owner, send, shop, type Listed } from './shop.test-kit.ts'

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

  test('are not found by an address that a URL has changed, which is told how it is written', async () => {
    const { error } = (await owner.ask('GET', '/messages?recipient=ann+news@example.org')).json<{ error: string }>()
    expect(error).toMatch(/whole e-mail address.* In a URL write its \+ as %2B\.$/)
    const half = (await owner.ask('GET', '/messages?recipient=ann')).json<{ error: string }>()
    expect(half.error).not.toContain('URL')
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
      until: performance.now() + 600_000,
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
