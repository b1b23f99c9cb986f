// Against a real PostgreSQL: everything names its workspace, and what cannot be done is one sentence.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import { silentLog } from '../base/log.ts'
import { makeVault, sealedAs } from '../base/secret.ts'
import { limits, parseRoute } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { dkimHeaders, signingKey } from '../mail/dkim.ts'
import { openDatabase, type Db } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { saveInvitation } from '../store/invitations.ts'
import { mailboxNamed } from '../store/senders.ts'
import { readRecord, readStatus } from '../store/views/message-status.ts'
import {
  addDomain,
  addMailbox,
  addSuppression,
  changeWorkspace,
  createCredentialFor,
  createKey,
  createKeyFor,
  createWorkspace,
  exportSuppressions,
  findWorkspace,
  importSuppressions,
  listAllWorkspaces,
  listDomains,
  listKeys,
  listMailboxes,
  listMessagesOf,
  listPlans,
  listSuppressions,
  makeAuthenticator,
  Mistake,
  removeSuppression,
  suppressing,
  undoRule,
  changeMailboxFor,
  revokeKeyFor,
  whoseKey,
  whoseMailbox,
  setPlan,
  setWorkspace,
  showMessage,
  type By,
  type Workspace,
} from './workspace.ts'

const vault = makeVault('v'.repeat(32))
let database: FreshDatabase
let db: Db
let tools: { db: Db; vault: typeof vault; hostname: string }
let shop: Workspace
let other: Workspace
const by = (workspaceId: WorkspaceId): By => ({ workspaceId, actor: 'cli', scopes: new Set() })

beforeAll(async () => {
  database = await freshDatabase()
  db = openDatabase(database.connection, { name: 'test', connectionsMax: 4, answerMs: 10_000 })
  tools = { db, vault, hostname: 'mail.example.net' }
  shop = await createWorkspace(db, vault, 'Shop', 'unlimited')
  other = await createWorkspace(db, vault, 'Other', 'unlimited')
  await addDomain(tools, shop.id, 'example.org', true)
})
afterAll(async () => {
  await db.close()
  await database.drop()
})

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

  test('a plan keeps what is not changed; none takes a limit away', async () => {
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
    expect(await setPlan(db, 'tiny', { hourly: 'none', upgradeUrl: '' })).toEqual({
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
          message: expect.stringContaining('is reserved') as string,
          field: 'name',
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

describe('suppressions', () => {
  const waiting = `select from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.datname = current_database()`
  const all = async () => {
    const found: string[] = []
    for await (const each of listSuppressions(db, shop.id)) found.push(`${each.recipient} ${each.reason}`)
    return found
  }

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
    let file = ''
    for await (const line of exportSuppressions(db, shop.id)) file += line
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
    const told = async (workspace: Workspace) => {
      let file = ''
      for await (const line of exportSuppressions(db, workspace.id)) file += line
      return file
    }
    const file = await told(from)
    expect(await importSuppressions(db, to.id, file, 'operator:test')).toMatchObject({ added: 3, alreadyThere: 0 })
    expect(await told(to)).toBe(file)
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
    let file = ''
    for await (const line of exportSuppressions(db, from.id)) file += line
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
    let file = ''
    for await (const line of exportSuppressions(db, from.id)) file += line
    await importSuppressions(db, to.id, file, 'operator:test')
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
    const left: string[] = []
    for await (const { recipient, createdBy } of listSuppressions(db, fourth.id)) left.push(`${recipient} ${createdBy}`)
    expect(left).toEqual([
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

  test('lists are read page by page without a gap', async () => {
    const many = limits.suppressionImportRows + 5
    const third = await createWorkspace(db, vault, 'Third', 'free')
    const file = Array.from({ length: many }, (_, n) => `r${n}@b.example`).join('\n')
    expect(await importSuppressions(db, third.id, file, 'operator:test')).toMatchObject({
      added: many,
      alreadyThere: 0,
    })
    let count = 0
    for await (const _ of listSuppressions(db, third.id)) count++
    expect(count).toBe(many)
  })
})

describe('keys', () => {
  const authenticator = () => makeAuthenticator({ db, log: silentLog, publicUrl: 'http://localhost:3000' })

  test('a key is shown once and speaks for its workspace with its scopes', async () => {
    const made = await createKey(db, shop.id, { name: 'server', scopes: ['mail.send', 'mail.send'] })
    expect(made).toMatchObject({ name: 'server', scopes: ['mail.send'], prefix: made.key.slice(0, 10) })
    const { authenticate } = authenticator()
    expect(await authenticate(made.key)).toEqual({
      actor: `key:${made.id}`,
      keyId: made.id,
      workspaceId: shop.id,
      scopes: new Set(['mail.send']),
      blocked: false,
      apiSending: true,
    })
    expect(JSON.stringify(await listKeys(db, shop.id))).not.toContain(made.key)
    expect(await authenticate(`ph_${'x'.repeat(43)}`)).toBeUndefined()
    expect(await authenticate('x')).toBeUndefined()
  })

  test('scopes are a closed list', async () => {
    await expect(createKey(db, shop.id, { name: 'k', scopes: ['mail.sned'] })).rejects.toThrow('no scope "mail.sned"')
    await expect(createKey(db, shop.id, { name: 'k', scopes: [] })).rejects.toThrow('at least one scope')
    const scopes = ['mail.status.read', 'smtp-credentials.write', 'audit.read']
    expect((await createKey(db, shop.id, { name: 'k', scopes })).scopes).toEqual(scopes)
  })

  test('a key that has expired already is not made', async () => {
    const wish = { name: 'k', scopes: ['mail.send'], expiresAt: new Date(Date.now() - 1) }
    await expect(createKey(db, shop.id, wish)).rejects.toThrow('A key must expire in the future.')
  })

  test('a revoked key is refused at once', async () => {
    const { authenticate, forget } = authenticator()
    let heard = Promise.withResolvers<void>()
    const ears = listen(database.connection, 'posthorn_access', () => {
      forget()
      heard.resolve()
    })
    await heard.promise // it listens
    const made = await createKey(db, shop.id, { name: 'k', scopes: ['mail.send'] })
    expect(await authenticate(made.key)).toBeDefined()
    heard = Promise.withResolvers<void>()
    await revokeKeyFor(tools, by(shop.id), made.id)
    await heard.promise
    expect(await authenticate(made.key)).toBeUndefined()
    expect((await revokeKeyFor(tools, by(await whoseKey(db, made.id)), made.id)).revokedAt).toBeInstanceOf(Date)
    await ears.stop()
    await expect(whoseKey(db, shop.id)).rejects.toThrow('There is no key')
  })

  test('an expired key is refused, and one that will expire is not remembered beyond that', async () => {
    const { authenticate } = authenticator()
    const soon = await createKey(db, shop.id, {
      name: 'k',
      scopes: ['mail.send'],
      expiresAt: new Date(Date.now() + 3600_000),
    })
    const gone = await createKey(db, shop.id, {
      name: 'k',
      scopes: ['mail.send'],
      expiresAt: new Date(Date.now() + 3600_000),
    })
    await db.run(`update api_keys set expires_at = now() - interval '1 second' where id = $1`, [gone.id])
    expect(await authenticate(soon.key)).toBeDefined()
    expect(await authenticate(gone.key)).toBeUndefined()
  })

  test('what is revoked or expired makes room for new ones: a workspace that changes its secrets never runs out', async () => {
    const busy = (await createWorkspace(db, vault, 'Rotating', 'unlimited')).id
    const who: By = { ...by(busy), scopes: new Set(['mail.send']) }
    const most = limits.keysPerWorkspaceMax
    await db.run(
      `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes, revoked_at, expires_at)
       select $1, uuid_floor(app_now() + i * interval '1 second'), 'key ' || i, 'ph_', decode(lpad(to_hex(i), 64, '0'), 'hex'), '{mail.send}',
              case when i in (2, 5) then app_now() end, case when i = 3 then app_now() - interval '1 day' end
         from generate_series(1, $2) i`,
      [busy, most],
    )
    await db.run(
      `insert into smtp_credentials (workspace_id, id, name, username, password_hash, revoked_at, expires_at)
       select $1, uuid_floor(app_now() + i * interval '1 second'), 'login ' || i, 'rotating-' || i, '',
              case when i = 2 then app_now() end, case when i = 4 then app_now() - interval '1 day' end
         from generate_series(1, $2) i`,
      [busy, most],
    )
    const gone = async (table: string, what: string) =>
      (
        await db.run<{ n: number }>(
          `select i n from generate_series(1, $2) i
          where not exists (select from ${table} where workspace_id = $1 and name = '${what} ' || i) order by i`,
          [busy, most],
        )
      ).map(({ n }) => n)

    await createKeyFor(tools, who, { name: 'new', scopes: ['mail.send'] })
    expect(await gone('api_keys', 'key')).toEqual([3])
    for (let n = 0; n < 2; n++) await createKeyFor(tools, who, { name: 'newer', scopes: ['mail.send'] })
    expect(await gone('api_keys', 'key')).toEqual([2, 3, 5])
    await expect(createKeyFor(tools, who, { name: 'newest', scopes: ['mail.send'] })).rejects.toThrow('at most')

    await createCredentialFor(tools, who, 'new')
    expect(await gone('smtp_credentials', 'login')).toEqual([4])
    await createCredentialFor(tools, who, 'newer')
    expect(await gone('smtp_credentials', 'login')).toEqual([2, 4])
    await expect(createCredentialFor(tools, who, 'newest')).rejects.toThrow('at most')
  })

  test('many requests at once ask the database once, and later ones not at all', async () => {
    let questions = 0
    const counting: Db = {
      ...db,
      rows: (statement, values) => {
        if (statement.name === 'key-holder') questions++
        return db.rows(statement, values)
      },
    }
    const { authenticate, forget } = makeAuthenticator({ db: counting, log: silentLog, publicUrl: '' })
    const made = await createKey(db, shop.id, { name: 'k', scopes: ['mail.send'] })
    await Promise.all(Array.from({ length: 50 }, () => authenticate(made.key)))
    await authenticate(made.key)
    expect(questions).toBe(1)
    forget()
    await authenticate(made.key)
    expect(questions).toBe(2)
  })

  test('an answer that was asked for before a change is not remembered after it', async () => {
    const gate = Promise.withResolvers<void>()
    let questions = 0
    const slow: Db = {
      ...db,
      rows: async (statement, values) => {
        const rows = await db.rows(statement, values)
        if (statement.name === 'key-holder' && ++questions === 1) await gate.promise
        return rows as never
      },
    }
    const { authenticate, forget } = makeAuthenticator({ db: slow, log: silentLog, publicUrl: '' })
    const made = await createKey(db, shop.id, { name: 'k', scopes: ['mail.send'] })
    const before = authenticate(made.key)
    forget()
    await revokeKeyFor(tools, by(shop.id), made.id)
    const after = authenticate(made.key)
    gate.resolve()
    await before
    expect(await after).toBeUndefined()
    expect(await authenticate(made.key)).toBeUndefined()
  })

  test.each(['was long on its way', 'is still on its way'])(
    'an answer that %s is as old as its question: a key that was revoked since is refused, also where no change was heard',
    async (how) => {
      const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let [questions, laterMs] = [0, 0]
      const slow: Db = {
        ...db,
        rows: async (statement, values) => {
          const rows = await db.rows(statement, values)
          if (statement.name === 'key-holder' && ++questions === 1) {
            asked.resolve()
            await gate.promise
          }
          return rows as never
        },
      }
      const now = performance.now.bind(performance)
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
      try {
        const { authenticate } = makeAuthenticator({ db: slow, log: silentLog, publicUrl: '' })
        const made = await createKey(db, shop.id, { name: 'k', scopes: ['mail.send'] })
        const before = authenticate(made.key)
        await asked.promise
        await revokeKeyFor(tools, by(shop.id), made.id)
        laterMs = limits.principalCacheMs
        if (how === 'was long on its way') {
          gate.resolve()
          await before
        }
        expect(await authenticate(made.key)).toBeUndefined()
        gate.resolve()
        await before
      } finally {
        clock.mockRestore()
      }
    },
  )

  test('it tells blocked workspaces and where to upgrade, as an absolute URL', async () => {
    const poor = await createWorkspace(db, vault, 'Poor', 'free')
    await setWorkspace(db, vault, poor.id, { status: 'blocked' })
    const made = await createKey(db, poor.id, { name: 'k', scopes: ['mail.send'] })
    expect(await authenticator().authenticate(made.key)).toMatchObject({
      blocked: true,
      apiSending: false,
      upgradeUrl: 'http://localhost:3000/upgrade',
    })
  })
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
    const at = new Date('2026-11-21T09:30:00.123Z')
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
