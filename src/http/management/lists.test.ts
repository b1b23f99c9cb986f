// Suppressions, usage and the sandbox's inbox.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { limits } from '../../config.ts'
import type { Statement } from '../../store/database.ts'
import { makeFold } from '../../store/usage.ts'
import type { Sender } from '../../store/store.test-kit.ts'
import { makeToken } from '../../mail/return-path.ts'
import { makeReturnPathKeys } from '../../store/return-path-keys.ts'
import { makeSandboxInbox } from '../../store/sandbox.ts'
import type { BrowserOf } from '../office.test-kit.ts'
import { begin, list, office, owner, send, shop, type Listed } from './shop.test-kit.ts'

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
  // The clock stands: what was counted in one hour would be looked for in the next.
  let began: string
  beforeAll(async () => {
    await begin()
    began = new Date().toISOString()
    await office.world.setClock(began)
  })
  afterAll(() => office.world.setClock())

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
    expect((await owner.ask('GET', '/usage/series?step=day')).json()).toMatchObject({
      step: 'day',
      totals: before.totals,
    })
    // Until the end of this hour, by the clock of those who count.
    const hour = Math.ceil(Date.now() / 3600_000) * 3600_000 + 5 * 3600_000
    await office.world.setClock(new Date(hour - 1).toISOString())
    const { to } = (await owner.ask('GET', '/usage/series')).json<{ to: string }>()
    await office.world.setClock(began)
    expect(to).toBe(new Date(hour).toISOString())
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
    // Where it goes before its first octet was read, what is told of that is no file.
    const { db } = office.world
    const { rows } = db
    const spy = vi.spyOn(db, 'rows').mockImplementation(async (statement: Statement, values) => {
      if (statement.name === 'read-sandbox-slice')
        await db.run('delete from sandbox_mail where id = $1', [items[0]?.id])
      return rows(statement, values)
    })
    onTestFinished(() => spy.mockRestore())
    const gone = await owner.ask('GET', `/sandbox/${items[0]?.id}/raw`)
    expect(gone.statusCode).toBe(500)
    expect(gone.json()).toMatchObject({ code: 'internal_error' })
    expect(gone.headers['content-type']).toMatch(/^application\/json/)
    expect(gone.headers).not.toHaveProperty('content-disposition')
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
