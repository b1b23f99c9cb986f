// Against a real PostgreSQL: everything names its workspace, and what cannot be done is one sentence.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { sealedAs } from '../base/secret.ts'
import { parseRoute } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import { dkimHeaders, signingKey } from '../mail/dkim.ts'
import { saveInvitation } from '../store/invitations.ts'
import { mailboxNamed } from '../store/mailboxes.ts'
import { readRecord, readStatus } from '../store/views/message-status.ts'
import {
  addDomain,
  addMailbox,
  changeWorkspace,
  createWorkspace,
  findWorkspace,
  listAllWorkspaces,
  listDomains,
  listMailboxes,
  listMessagesOf,
  listPlans,
  Mistake,
  changeMailboxFor,
  whoseMailbox,
  setPlan,
  setWorkspace,
  showMessage,
  type Workspace,
} from './workspace.ts'
import { by, db, other, shop, tools, vault } from './workspace.test-kit.ts'

describe('workspaces and plans', () => {
  test('every workspace has its row of used quota', async () => {
    const missing = await db.run('select id from workspaces where id not in (select workspace_id from usage)')
    expect(missing).toEqual([])
    expect(await db.run('select from usage where workspace_id = $1', [shop.id])).toHaveLength(1)
  })

  test('a workspace is found by its id and by its exact name', async () => {
    expect(await findWorkspace(db, vault, shop.id)).toEqual(shop)
    expect(await findWorkspace(db, vault, shop.id.toUpperCase())).toEqual(shop)
    expect(await findWorkspace(db, vault, 'Shop')).toEqual(shop)
    await expect(findWorkspace(db, vault, 'shop')).rejects.toThrow('There is no workspace "shop"')
    expect((await listAllWorkspaces(db, vault)).map(({ name }) => name)).toEqual(['Other', 'Shop'])
  })

  test('what cannot be made says why', async () => {
    await expect(createWorkspace(db, vault, 'Shop', 'free')).rejects.toThrow('already a workspace named "Shop"')
    await expect(createWorkspace(db, vault, 'X', 'huge')).rejects.toThrow('no plan "huge"')
    await expect(createWorkspace(db, vault, '  ', 'free')).rejects.toThrow('1 to 200 characters')
    await expect(createWorkspace(db, vault, shop.id, 'free')).rejects.toThrow('named like an id')
  })

  test.each(['mx', 'mx?tls=required', 'smtp://relay.example:25?tls=required', 'smtps://relay.example:465', 'sandbox'])(
    'a route without a login is shown as it may be set again: %s',
    async (route) => {
      expect((await setWorkspace(db, vault, shop.id, { route })).route).toBe(route)
      await setWorkspace(db, vault, shop.id, { route: 'default' })
    },
  )

  test('what members call theirs is never acted on: a command that names it is told whose id to give', async () => {
    const [one, two, three] = [
      await createWorkspace(db, vault, 'Called one', 'free'),
      await createWorkspace(db, vault, 'Called two', 'free'),
      await createWorkspace(db, vault, 'Called three', 'free'),
    ]
    const call = async ({ id }: Workspace, name: string) => {
      const changed = await changeWorkspace(tools, by(id), { name })
      expect(changed.name).toBe(name)
    }
    const found = async (name: string) => (await findWorkspace(db, vault, name)).id
    await call(two, 'Acme')
    await expect(found('Acme')).rejects.toThrow(
      `There is no workspace "Acme", but its members call "Called two" (${two.id}) so`,
    )
    expect(await found(two.id)).toBe(two.id)
    expect(await findWorkspace(db, vault, 'Called two')).toMatchObject({ name: 'Called two', ownName: 'Acme' })
    await call(three, 'Acme')
    await expect(found('Acme')).rejects.toThrow(new RegExp(`${two.id}.*${three.id}|${three.id}.*${two.id}`))
    for (const each of [two, three]) await call(each, 'Called one')
    expect(await found('Called one')).toBe(one.id)
    await expect(createWorkspace(db, vault, 'Called two', 'free')).rejects.toThrow('There is already a workspace')
    // Nor does a name that only members use take it from an operator.
    await call(two, 'Called four')
    const four = await createWorkspace(db, vault, 'Called four', 'free')
    expect(await found('Called four')).toBe(four.id)
  })

  test('its operators rename it: to no name of another one, and the name of its members stays where it is another', async () => {
    const [one, other] = [
      await createWorkspace(db, vault, 'Named wrong', 'free'),
      await createWorkspace(db, vault, 'Named right', 'free'),
    ]
    const rename = (name: string) => setWorkspace(db, vault, one.id, { name })
    await expect(rename('Named right')).rejects.toThrow('already a workspace named "Named right"')
    await expect(rename(other.id)).rejects.toThrow('named like an id')
    await expect(rename(' ')).rejects.toThrow('1 to 200 characters')
    await changeWorkspace(tools, by(one.id), { name: 'Ours' })
    expect(await rename(' Named well ')).toEqual({ ...one, name: 'Named well', ownName: 'Ours' })
    expect((await findWorkspace(db, vault, 'Named well')).id).toBe(one.id)
    await expect(findWorkspace(db, vault, 'Named wrong')).rejects.toThrow('There is no workspace')
    expect(await rename('Ours')).toEqual({ ...one, name: 'Ours' })
  })

  test('a route is sealed, shown without its login, and taken away again', async () => {
    const url = 'smtp://user:p%40ss@relay.example:2525'
    const changed = await setWorkspace(db, vault, shop.id, { route: url })
    expect(changed.route).toBe('smtp://relay.example:2525')
    const [row] = await db.run<{ route_sealed: Buffer }>('select route_sealed from workspaces where id = $1', [shop.id])
    expect(row?.route_sealed.includes('p%40ss')).toBe(false)
    const opened = vault.open(row?.route_sealed ?? Buffer.alloc(0), sealedAs.route(shop.id))
    expect(parseRoute(opened)).toMatchObject({ kind: 'relay', login: { user: 'user', password: 'p@ss' } })
    expect((await setWorkspace(db, vault, shop.id, { status: 'blocked' })).route).toBeDefined()
    expect(await setWorkspace(db, vault, shop.id, { route: 'default', status: 'active' })).toEqual(shop)
    await expect(setWorkspace(db, vault, shop.id, { route: 'smtp://u:%ZZ@h' })).rejects.toThrow(Mistake)
    await expect(setWorkspace(db, vault, shop.id, { route: 'pigeon' })).rejects.toThrow('must be sandbox, mx')
  })

  test('a plan keeps what is not changed; null takes a limit away', async () => {
    expect(await setPlan(db, 'tiny', { hourly: 3, upgradeUrl: '/more' })).toEqual({
      name: 'tiny',
      apiSending: true,
      hourly: 3,
      daily: null,
      monthly: null,
      upgradeUrl: '/more',
    })
    expect(await setPlan(db, 'tiny', { daily: 0, apiSending: false })).toMatchObject({
      hourly: 3,
      daily: 0,
      apiSending: false,
    })
    expect(await setPlan(db, 'tiny', { hourly: null, upgradeUrl: '' })).toEqual({
      name: 'tiny',
      apiSending: false,
      hourly: null,
      daily: 0,
      monthly: null,
    })
    await expect(setPlan(db, 'tiny', { upgradeUrl: 'javascript:alert(1)' })).rejects.toThrow(Mistake)
    expect((await listPlans(db)).map(({ name }) => name)).toContain('tiny')
  })
})

describe('domains and mailboxes', () => {
  test('a domain comes with its records and a key that signs', async () => {
    const domain = await addDomain(tools, other.id, 'Bücher.Example', false)
    expect(domain).toMatchObject({ name: 'xn--bcher-kva.example', status: 'pending' })
    const selector = /^(ph\d{6}-[a-z2-7]{4})\._domainkey\./.exec(domain.records[1]?.name ?? '')?.[1] ?? ''
    expect(domain.records.map(({ type, name, status }) => `${type} ${name} ${status}`)).toEqual([
      `TXT _posthorn.${domain.name} pending`,
      `TXT ${selector}._domainkey.${domain.name} pending`,
      `CNAME bounces.${domain.name} pending`,
      `TXT _dmarc.${domain.name} advised`,
    ])
    expect(domain.records[1]?.value).toMatch(/^v=DKIM1; k=rsa; p=[A-Za-z0-9+/]{300,}={0,2}$/)
    expect(domain.records[2]?.value).toBe('mail.example.net')
    expect(await listDomains(db, other.id, 'mail.example.net')).toEqual([domain])
    const [row] = await db.run<{ private_key_sealed: Buffer }>(
      'select private_key_sealed from dkim_key_pairs where workspace_id = $1',
      [other.id],
    )
    const privateKeyPem = vault.open(
      row?.private_key_sealed ?? Buffer.alloc(0),
      sealedAs.dkimKey(other.id, domain.name),
    )
    const key = signingKey({ domain: domain.name, selector, privateKeyPem })
    expect(await dkimHeaders([key], [['From', ' a@b.example']], Buffer.from('x\r\n'), 0)).toContain(`s=${selector}`)
  })

  test("the operator's word verifies a domain, also one that waits", async () => {
    await expect(addDomain(tools, other.id, 'xn--bcher-kva.example', false)).rejects.toThrow('already has the domain')
    const domain = await addDomain(tools, other.id, 'xn--bcher-kva.example', true)
    expect(domain.status).toBe('verified')
    // Nobody has looked yet.
    expect(domain.records.map(({ status }) => status)).toEqual(['pending', 'pending', 'pending', 'advised'])
    await expect(addDomain(tools, other.id, 'not a domain', true)).rejects.toThrow(Mistake)
  })

  test.each(['simulator.posthorn.test', 'a.Simulator.Posthorn.test'])(
    'the domain of the simulator is nobody to send from: %s',
    async (name) => {
      for (const verified of [true, false])
        await expect(addDomain(tools, other.id, name, verified)).rejects.toMatchObject({
          refusal: { words: expect.stringContaining('is reserved') as string, field: 'name' },
        })
    },
  )

  test('a mailbox stands on a domain of its own workspace', async () => {
    const mailbox = await addMailbox(db, shop.id, 'Hello@Example.org', 'The Shop')
    expect(mailbox).toMatchObject({
      address: 'Hello@example.org',
      name: 'The Shop',
      status: 'active',
      domain: 'example.org',
    })
    await expect(addMailbox(db, shop.id, 'hello@example.org')).rejects.toThrow('already has the mailbox')
    await expect(addMailbox(db, other.id, 'hello@example.org')).rejects.toThrow('does not have the domain example.org')
    await expect(addMailbox(db, shop.id, 'nobody')).rejects.toThrow('is not an address')
    await expect(addMailbox(db, shop.id, '"a b"@example.org')).rejects.toThrow('has a quoted local part, which is not')
    expect(await changeMailboxFor(tools, by(shop.id), mailbox.id, { status: 'disabled' })).toEqual({
      ...mailbox,
      status: 'disabled',
    })
    expect(await listMailboxes(db, shop.id)).toEqual([{ ...mailbox, status: 'disabled' }])
    expect(await listMailboxes(db, other.id)).toEqual([])
    expect(await whoseMailbox(db, mailbox.id)).toBe(shop.id)
    await expect(whoseMailbox(db, shop.id)).rejects.toThrow('There is no mailbox')
    await expect(whoseMailbox(db, 'x')).rejects.toThrow('not the id of a mailbox')
    for (const [name, is] of [
      ['می\u200cخواهم', true],
      ['👩\u200d👩\u200d👧', true],
      ['😀'.repeat(200), true],
      ['😀'.repeat(201), false],
      ['gpj.\u202eexe', false],
      ['a\u0000', false],
    ] as const) {
      const named = addMailbox(db, shop.id, `name-${encodeURIComponent(name).length}@example.org`, name)
      if (is) expect((await named).name).toBe(name)
      else await expect(named).rejects.toThrow('no control or invisible characters')
    }
  })
})

test("nobody else's mailbox of the same address takes the installation's own sender away", async () => {
  await addDomain(tools, shop.id, 'sender.example', true)
  const { id: mailboxId } = await addMailbox(db, shop.id, 'system@sender.example')
  // Anybody may add a domain; that it is theirs they cannot prove.
  await addDomain(tools, other.id, 'sender.example', false)
  await addMailbox(db, other.id, 'system@sender.example')
  expect(await mailboxNamed(db, 'System@sender.example')).toEqual({ workspaceId: shop.id, mailboxId })
  expect(await mailboxNamed(db, mailboxId)).toEqual({ workspaceId: shop.id, mailboxId })
})

test('an invitation that nobody took is in nobody’s way', async () => {
  const busy = (await createWorkspace(db, vault, 'Inviting', 'unlimited')).id
  const invite = (who: string, ms: number) =>
    saveInvitation(
      db,
      busy,
      {
        id: randomUUIDv7(),
        email: `${who}@example.org`,
        emailKey: `${who}@example.org`,
        role: 'viewer',
        tokenHash: randomBytes(32),
        invitedBy: 'cli',
      },
      ms,
      3,
    )
  for (const [who, ms] of [
    ['late', -1],
    ['open', 60_000],
    ['later', -1],
  ] as const)
    await invite(who, ms)
  for (const who of ['new', 'newer']) expect(await invite(who, 60_000)).toMatchObject({ email: `${who}@example.org` })
  expect(await invite('newest', 60_000)).toBeUndefined()
  const left = await db.run<{ email: string }>('select email from invitations where workspace_id = $1', [busy])
  expect(left.map(({ email }) => email).sort()).toEqual(['new@example.org', 'newer@example.org', 'open@example.org'])
})

describe('messages', () => {
  const id = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d' as MessageId

  test('are read with every report, by their own workspace only', async () => {
    const at = new Date(Date.now() - 60_000) // its content is kept for days
    await db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, delivery_rank, sequence, sender, recipient, recipient_key, subject,
                             metadata, accepted_by, created_at, finished_at)
       values ($1, $2, $1, 'rest', 'sent', 2, 3, 's@example.org', 'r@example.com', 'r@example.com', 'Hi', '{"a":"b"}', 'n1', $3, $3)`,
      [shop.id, id, at],
    )
    await db.run('insert into contents (workspace_id, message_id, body_text) values ($1, $2, $3)', [
      shop.id,
      id,
      'body',
    ])
    await db.run(
      `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
       values ($1, $2, 1, 'message.queued', 'queued', 0, $3, null), ($1, $2, 3, 'message.delivered', 'sent', 2, $3, '{"x":1}')`,
      [shop.id, id, at],
    )
    await db.run(
      `insert into reports (workspace_id, message_id, sequence, type, detail, source, created_at)
       values ($1, $2, 3, 'delivered', '250 ok', 'session', $3)`,
      [shop.id, id, at],
    )
    await db.run(
      `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values
         ($1, $2, 1, $3, 'delivery_unknown', '{}'), ($1, $2, 2, $3, 'retry', '{}'), ($1, $2, 3, $3, 'accepted', '{"host":"mx","route":"installation"}')`,
      [shop.id, id, at],
    )
    const status = await readStatus(db, shop.id, id)
    expect(status).toEqual({
      message: {
        id,
        workspaceId: shop.id,
        mailboxId: shop.id,
        status: 'sent',
        deliveryStatus: 'delivered',
        sender: 's@example.org',
        recipient: 'r@example.com',
        subject: 'Hi',
        bodyText: 'body',
        metadata: { a: 'b' },
        createdAt: at,
      },
      events: [
        {
          id: '0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7e',
          eventType: 'delivered',
          recipient: 'r@example.com',
          detail: '250 ok',
          createdAt: at,
        },
      ],
    })
    expect(await readRecord(db, shop.id, id)).toEqual(status?.message)
    expect(await readStatus(db, other.id, id)).toBeUndefined()
    const timeline = await showMessage(db, id.toUpperCase())
    expect(timeline.events.map(({ sequence, type }) => [sequence, type])).toEqual([
      [1, 'message.queued'],
      [3, 'message.delivered'],
    ])
    expect(timeline.reports).toEqual(status?.events)
    // As the reaper and as workers write them: told in one vocabulary, that of the API's description; the route is kept for feeds alone.
    expect(timeline.attempts).toEqual([
      { epoch: 1, outcome: 'delivery_unknown', endedAt: at, facts: {} },
      { epoch: 2, outcome: 'retrying', endedAt: at, facts: {} },
      { epoch: 3, outcome: 'sent', endedAt: at, facts: { host: 'mx' } },
    ])
    expect((await listMessagesOf(db, shop.id, 10)).map((each) => each.id)).toEqual([id])
    expect(await listMessagesOf(db, other.id, 10)).toEqual([])
    await expect(showMessage(db, shop.id)).rejects.toThrow('There is no message')
  })

  test('a big body comes out of its chunks', async () => {
    const big = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7f' as MessageId
    await db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
       values ($1, $2, $1, 'rest', 1, 's@example.org', 'r@example.com', 'r@example.com', 'Hi', 'n1', now())`,
      [shop.id, big],
    )
    await db.run('insert into contents (workspace_id, message_id, body_blob) values ($1, $2, $2)', [shop.id, big])
    await db.run('insert into blobs (id, part, bytes) values ($1, 0, $2), ($1, 1, $3)', [
      big,
      Buffer.from('grü').subarray(0, 3),
      Buffer.from('grün').subarray(3),
    ])
    expect((await readRecord(db, shop.id, big))?.bodyText).toBe('grün')
  })
})
