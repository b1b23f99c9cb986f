import { beforeEach, describe, expect, test } from 'vitest'
import { makeVault } from '../base/secret.ts'
import { makeToken } from '../mail/return-path.ts'
import type { Armable } from './outbound.ts'
import { makeReturnPathKeys } from './return-path-keys.ts'
import { makeSandboxInbox, pageSandbox, pruneSandbox } from './sandbox.ts'
import { emptyDatabase } from '../../test/world/postgres.ts'
import { openDatabase } from './database.ts'
import { migrate } from './migrate.ts'
import { storeWorld, type Sender } from './store.test-kit.ts'
import { pageMessages } from './views/message-list.ts'
import { watched } from './watched.test-kit.ts'

const vault = makeVault(Buffer.alloc(32, 7).toString('base64'))
const world = await storeWorld()

let shop: Sender
let bakery: Sender
let ofShop: Armable
let ofBakery: Armable
beforeEach(async () => {
  ;[shop, bakery] = [await world.sender(), await world.sender()]
  const claims = [...(await world.claimed(shop, [{}])), ...(await world.claimed(bakery, [{}]))]
  ;[ofShop, ofBakery] = claims as [Armable, Armable]
})

const keys = () => makeReturnPathKeys(world.db, vault)
const returnPath = async (claim: Armable, sender: Sender, using = vault): Promise<string> =>
  `${makeToken(await makeReturnPathKeys(world.db, using).at(new Date()), claim.id, sender.workspaceId)}@bounce.example`
const keep = (envelopeFrom: string, text = 'Subject: x\r\n\r\nx\r\n') =>
  makeSandboxInbox(
    world.db,
    keys(),
  )({
    envelopeFrom,
    recipient: 'ann@example.org',
    content: Buffer.from(text),
  })
const inboxOf = async ({ workspaceId }: Sender) =>
  (await pageSandbox(world.db, workspaceId, { most: 10 })).mails.map(({ messageId }) => messageId)

describe('a mail in the sandbox belongs to the message that it is', () => {
  test('also where its author gave it a Message-ID of his own', async () => {
    await keep(await returnPath(ofShop, shop), 'Message-ID: <1@client.example>\r\n\r\nx\r\n')
    expect(await inboxOf(shop)).toEqual([ofShop.id])
    expect(await inboxOf(bakery)).toEqual([])
  })

  test.each([
    ['its own Message-ID', (id: string) => `Message-ID: <${id}@client.example>\r\n\r\nx\r\n`],
    ['its text', (id: string) => `Subject: Fwd\r\n\r\nMessage-ID: <${id}@mail.example>\r\n`],
  ])('and not to one whose id stands in %s', async (_, mailWith) => {
    await keep(await returnPath(ofBakery, bakery), mailWith(ofShop.id))
    expect(await inboxOf(shop)).toEqual([])
    expect(await inboxOf(bakery)).toEqual([ofBakery.id])
  })

  test('whatever the case in which its return path came', async () => {
    await keep((await returnPath(ofShop, shop)).toUpperCase())
    expect(await inboxOf(shop)).toEqual([ofShop.id])
  })

  test('each of several in one batch for itself', async () => {
    const [one, other] = await world.claimed(shop, [{}, {}])
    const inbox = makeSandboxInbox(world.db, keys())
    const paths = await Promise.all([returnPath(one as Armable, shop), returnPath(other as Armable, shop)])
    const mail = { recipient: 'ann@example.org', content: Buffer.from('\r\n') }
    await Promise.all([...paths, 'who@ever.example'].map((envelopeFrom) => inbox({ ...mail, envelopeFrom })))
    expect(new Set(await inboxOf(shop))).toEqual(new Set([one?.id, other?.id]))
  })

  test('and to nobody where its return path is none of ours', async () => {
    await keep('')
    await keep('ann@example.org')
    await keep(await returnPath(ofShop, bakery))
    await keep(await returnPath(ofShop, shop, makeVault(Buffer.alloc(32, 8).toString('base64'))))
    expect(await inboxOf(shop)).toEqual([])
    expect(await inboxOf(bakery)).toEqual([])
  })
})

test('the inbox keeps the newest mails, up to so many octets', async () => {
  await world.db.run('delete from sandbox_mail')
  await world.db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content)
     select (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, now(), '', i || '@example.org',
            convert_to(repeat('x', 1000), 'UTF8') from generate_series(1, 1210) i`,
  )
  await pruneSandbox(world.db, 9_999)
  expect(await world.value(`select string_agg(recipient, ' ' order by id) from sandbox_mail`)).toBe(
    [1202, 1203, 1204, 1205, 1206, 1207, 1208, 1209, 1210].map((n) => `${n}@example.org`).join(' '),
  )
})

test('the mails of a workspace are pushed out by its own, and not by those of a busy one', async () => {
  await world.db.run('delete from sandbox_mail')
  const fill = (workspace: string | null, from: number, until: number) =>
    world.db.run(
      `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
       select (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, now(), '', i::text,
              convert_to(repeat('x', 1000), 'UTF8'), $1::uuid from generate_series($2::integer, $3::integer) i`,
      [workspace, from, until],
    )
  await fill(shop.workspaceId, 1, 3)
  await fill(null, 4, 5)
  await fill(bakery.workspaceId, 6, 10_100)
  await pruneSandbox(world.db)
  const kept = `select string_agg(n || ' from ' || least, ', ' order by least) from (
    select count(*) n, min(recipient::integer) least from sandbox_mail group by workspace_id) w`
  expect(await world.value(kept)).toBe('3 from 1, 2 from 4, 9995 from 106')
  await pruneSandbox(world.db, 9_999)
  expect(await world.value(kept)).toBe('3 from 1, 2 from 4, 4 from 10097')
  // Each mail may be large, and a statement has its time: so many octets at once, and one mail at least.
  await fill(shop.workspaceId, 10_101, 10_120)
  const bites: number[] = []
  const answered = (_: string, rows: readonly object[]) => bites.push(rows.length)
  for (const octets of [2_500, 1])
    await pruneSandbox(watched(world.db, { answered }), octets === 1 ? 17_000 : 20_000, octets)
  expect(bites.filter((many) => many > 0)).toEqual([3, 3, 3, 1, 1, 1])
})

test('a search finds its mail also in a database without an encoding, as servers that were made without a locale have it', async () => {
  const made = await emptyDatabase(`locale_provider libc encoding 'SQL_ASCII'`)
  await migrate(made.connection)
  const db = openDatabase(made.connection, { name: 'ascii', connectionsMax: 1, answerMs: 5_000 })
  await db.run(
    `insert into sandbox_mail (id, workspace_id, received_at, envelope_from, recipient, content)
     values (uuid_floor(app_now()), $1, app_now(), '', 'Ann.Müller@example.org', '')`,
    [shop.workspaceId],
  )
  for (const filter of [{ recipient: 'ann.müller@example.org' }, { text: 'MÜLLER@EXAMPLE' }, { text: 'ann.' }]) {
    const { mails } = await pageSandbox(db, shop.workspaceId, { most: 10 }, filter)
    expect(mails).toHaveLength(filter.text === 'MÜLLER@EXAMPLE' ? 0 : 1) // letters beyond ASCII have no case there
  }
  await db.close()
  await made.drop()
})

test('an address is found in any case also in a database whose language has another i', async () => {
  const made = await emptyDatabase(`locale_provider icu icu_locale 'tr'`)
  await migrate(made.connection)
  const db = openDatabase(made.connection, { name: 'turkish', connectionsMax: 1, answerMs: 5_000 })
  await db.run(
    `insert into sandbox_mail (id, workspace_id, received_at, envelope_from, recipient, content)
     values (uuid_floor(app_now()), $1, app_now(), '', 'INFO.MÜLLER@Istanbul.example', '')`,
    [shop.workspaceId],
  )
  for (const filter of [
    { recipient: 'info.müller@istanbul.example' },
    { text: 'info.müller' },
    { text: 'MÜLLER@IST' },
  ]) {
    const { mails } = await pageSandbox(db, shop.workspaceId, { most: 10 }, filter)
    expect(mails, JSON.stringify(filter)).toHaveLength(1)
  }
  await db.run(`insert into plans (name) values ('shop')`)
  await db.run(`insert into workspaces (id, name, plan) values ($1, 'Shop', 'shop')`, [shop.workspaceId])
  await db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, provider_message_id, accepted_by, created_at)
     values ($1, uuid_floor(app_now()), $1, 'rest', 'queued', 1, 'a@b.example', 'INFO@Istanbul.example', 'info@istanbul.example', 'FIYAT', '4XIZ', 'node', app_now())`,
    [shop.workspaceId],
  )
  for (const text of ['info@ist', 'INFO@IST', '4xiz', '4XIZ', 'FIYAT', 'fıyat']) {
    const { messages } = await pageMessages(db, shop.workspaceId, { text }, { most: 10 })
    expect(messages, text).toHaveLength(1)
  }
  await db.close()
  await made.drop()
})
