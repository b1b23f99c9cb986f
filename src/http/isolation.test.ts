// What holds for every management endpoint there is, walked from the table of operations: whose things it touches, whom it lets in, what it
// leaves when a request has more than it should (attacks T1, T2, T10).
import { describe, expect, test } from 'vitest'
import type { Operation } from '../contract/operation.ts'
import { managementOperations, operations } from '../contract/operations.ts'
import { eventId } from '../domain/event.ts'
import type { MessageId } from '../domain/message.ts'
import { memberRoles, scopes, scopesOfRole, type Scope } from '../domain/scopes.ts'
import type { Sender } from '../store/store.test-kit.ts'
import { officeWorld } from './office.test-kit.ts'

/** But the stream, which has no end (live.test.ts). */
const all = Object.values<Operation>(managementOperations).filter(({ path }) => path !== '/api/v1/live')
const ofWorkspaces = all.filter(({ access }) => access === 'member')
/** Bodies that are right in shape; who may ask is decided before they are read. */
const bodies: Readonly<Record<string, object>> = {
  createKey: { name: 'k', scopes: ['mail.read'] },
  createSmtpCredential: { name: 'c' },
  addDomain: { name: 'example.net' },
  addMailbox: { address: 'x@example.net' },
  updateMailbox: { status: 'disabled' },
  updateWorkspace: { name: 'Another name' },
  addSuppression: { recipient: 'ada@example.com' },
  undoSuppressionRule: { rule: 'x', since: '2020-01-01T00:00:00Z' },
  importSuppressions: { csv: 'ada@example.com' },
  updateMember: { role: 'viewer' },
  createInvitation: { email: 'new@example.com', role: 'viewer' },
  setWebhook: { url: 'http://127.0.0.1:9/' },
}
const unknown = '0199f1c2-0000-7000-8000-00000000dead'

const office = await officeWorld()
const ours = await office.sender()
const theirs = await office.sender()
/** The ids of everything that the other workspace has, by the member of the path. */
const foreign = await furnished(theirs, 'foreign')
const own = await office.key(ours.workspaceId, 'webhooks.write')
expect((await office.withKey(own, 'PUT', '/webhook', bodies['setWebhook'])).statusCode).toBe(200)

/** Gives a workspace one of each, and answers their ids. */
async function furnished({ workspaceId, mailboxId, domainId }: Sender, name: string): Promise<Record<string, string>> {
  const { db } = office.world
  const key = await office.key(workspaceId, ...scopes)
  const body = { mailboxId, recipient: 'ada@example.com', subject: name, bodyText: 'x' }
  const messageId = (await office.withKey(key, 'POST', '/send', body)).json<{ id: string }>().id
  await office.withKey(key, 'POST', '/suppressions', { recipient: `${name}@example.com` })
  const invitation = await office.withKey(key, 'POST', '/invitations', { email: 'i@example.com', role: 'viewer' })
  const userId = (await office.login('developer', workspaceId)).id
  const mailId = office.world.nextId()
  await db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id) values ($1, now(), '', 'a@b.co', 'x', $2)`,
    [mailId, workspaceId],
  )
  const login = await office.withKey(key, 'POST', '/smtp-credentials', { name })
  await office.withKey(key, 'PUT', '/webhook', { url: `http://127.0.0.1:9/${name}` })
  const keyId = await office.world.value<string>('select id from api_keys where workspace_id = $1', [workspaceId])
  return {
    messageId,
    mailboxId,
    domainId,
    keyId,
    userId,
    mailId,
    credentialId: login.json<{ id: string }>().id,
    invitationId: invitation.json<{ id: string }>().id,
    recipient: `${name}%40example.com`,
    eventId: eventId(messageId as MessageId, 1),
  }
}

const pathWith = (path: string, ids: Readonly<Record<string, string>>): string =>
  path.slice('/api/v1'.length).replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? unknown)
const membersOf = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)

describe('things of another workspace', () => {
  const withIds = ofWorkspaces.filter(({ path }) => path.includes('{'))

  test.each(withIds.map((each) => [`${each.method} ${each.path}`, each] as const))(
    '%s: answered like an unknown id, to a key and to a member',
    async (_name, { method, path, operationId }) => {
      const missing = membersOf(path).filter((name) => !(name in foreign))
      expect(missing, 'the other workspace has one of each').toEqual([])
      const before = await everything()
      const key = await office.key(ours.workspaceId, ...scopes)
      const browser = await office.signedIn('owner', ours.workspaceId)
      const body = bodies[operationId]
      const askedByKey = (ids: Record<string, string>) =>
        office.withKey(key, method.toUpperCase(), pathWith(path, ids), body)
      const askedBySession = (ids: Record<string, string>) =>
        browser.ask(method.toUpperCase(), pathWith(path, ids), body === undefined ? {} : { body })
      for (const ask of [askedByKey, askedBySession]) {
        const [known, nowhere] = [await ask(foreign), await ask({ recipient: 'nobody%40example.com' })]
        expect(known.statusCode).toBe(404)
        expect(nowhere.statusCode).toBe(404)
        expect(known.body.replaceAll('foreign@', 'nobody@')).toBe(nowhere.body)
      }
      expect(await everything()).toEqual(before)
    },
  )

  /** What the other workspace has, in whatever table; when a key was used is written down at some time behind the answer. */
  const everything = async () => {
    const { db } = office.world
    const tables = await db.run<{ name: string }>(
      `select c.oid::regclass::text name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'workspace_id'
        where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = current_schema()::regnamespace order by 1`,
    )
    const rows = [{ name: 'workspaces', id: 'id' }, ...tables.map(({ name }) => ({ name, id: 'workspace_id' }))].map(
      async ({ name, id }) => [
        name,
        await db.run(`select to_jsonb(t) - 'last_used_at' was from ${name} t where ${id} = $1 order by t::text`, [
          theirs.workspaceId,
        ]),
      ],
    )
    return Object.fromEntries(await Promise.all(rows)) as Record<string, object[]>
  }

  test('whatever a workspace does with its own changes nothing of them', async () => {
    const place = await office.sender()
    const own = await furnished(place, 'own')
    const browser = await office.signedIn('owner', place.workspaceId)
    const before = await everything()
    const held = Object.entries(before).flatMap(([name, rows]) => (rows.length > 0 ? [name] : []))
    expect(held).toEqual(
      expect.arrayContaining(['api_keys', 'messages', 'suppressions', 'smtp_credentials', 'webhook_endpoints']),
    )
    // What takes something away comes last, so that the others find it.
    const last = ofWorkspaces.filter(({ method }) => method === 'delete')
    const first = ofWorkspaces.filter(({ method }) => method !== 'delete')
    const inOrder = [...first, ...last, ...first.filter(({ method }) => method === 'get')]
    const done: string[] = []
    for (const { method, path, operationId } of inOrder) {
      const body = bodies[operationId]
      const answer = await browser.ask(method.toUpperCase(), pathWith(path, own), body === undefined ? {} : { body })
      expect([operationId, answer.statusCode]).toEqual([operationId, expect.toSatisfy((code: number) => code < 500)])
      if (answer.statusCode < 300) done.push(operationId)
      for (const theirWord of [...Object.values(foreign), '/foreign'])
        expect([operationId, answer.body]).toEqual([operationId, expect.not.stringContaining(theirWord)])
      if (method !== 'get') expect([operationId, await everything()]).toEqual([operationId, before])
    }
    expect(done.length).toBeGreaterThan(inOrder.length / 2)
  })

  test('no list shows them', async () => {
    const browser = await office.signedIn('owner', ours.workspaceId)
    const lists = ofWorkspaces.filter(({ method, path }) => method === 'get' && !path.includes('{'))
    expect(lists.length).toBeGreaterThan(10)
    for (const { path } of lists) {
      const answer = await browser.ask('GET', pathWith(path, {}))
      expect(answer.statusCode, path).toBe(200)
      for (const id of [theirs.workspaceId, ...Object.values(foreign)]) expect(answer.body, path).not.toContain(id)
      for (const word of ['foreign@example.com', '/foreign']) expect(answer.body).not.toContain(word)
    }
  })

  test('whatever a list is asked for, by ids, words and places of theirs, it shows nothing of them', async () => {
    const browser = await office.signedIn('owner', ours.workspaceId)
    const them = await office.signedIn('owner', theirs.workspaceId)
    const asked = ofWorkspaces.filter(({ method, query }) => method === 'get' && query !== undefined)
    const places: string[] = []
    for (const { path, query } of asked) {
      if (path.includes('{') || !Object.hasOwn(query?.properties ?? {}, 'limit')) continue
      const first = (await them.ask('GET', `${pathWith(path, {})}?limit=1`)).json<{ next?: string }>()
      if (first.next !== undefined) places.push(first.next)
    }
    expect(places.length, 'theirs have a second page').toBeGreaterThan(2)
    const ids = [theirs.workspaceId, ...Object.values(foreign)]
    const words = ['foreign', 'foreign@example.com', 'ada@example.com']
    for (const { path, query } of asked)
      for (const name of Object.keys(query?.properties ?? {}))
        for (const value of [...ids, ...words, ...places]) {
          const url = `${pathWith(path, foreign)}?${new URLSearchParams({ [name]: value }).toString()}`
          const answer = await browser.ask('GET', url)
          expect([url, answer.statusCode]).toEqual([url, expect.toSatisfy((code: number) => code < 500)])
          for (const their of [...ids, 'foreign@example.com', '/foreign'])
            if (their !== value) expect([url, answer.body]).toEqual([url, expect.not.stringContaining(their)])
        }
  })

  test('a session names only workspaces that its person belongs to; foreign and unknown ones are answered alike', async () => {
    const browser = await office.signedIn('owner', ours.workspaceId)
    const named = (id: string) => browser.ask('GET', '/messages', { headers: { 'x-posthorn-workspace': id } })
    const [known, nowhere] = [await named(theirs.workspaceId), await named(unknown)]
    expect(known.statusCode).toBe(403)
    expect(known.body).toBe(nowhere.body)
    expect((await named('no id')).statusCode).toBe(400)
  })
})

describe('what answers at all', () => {
  /** The same for everybody, of no workspace; and what providers sign (feeds.test.ts). */
  const besides = [
    /^(?:GET|HEAD) \/(?:\*|docs|docs\/(?:init|scalar)-[^/]+\.js|healthz|readyz|api\/v1\/openapi\.json)?$/,
    /^POST \/feeds\/:feedId$/,
  ]

  test('is an operation of the tables that are walked here, or named above', () => {
    const known = new Set(
      [...Object.values<Operation>(operations), ...Object.values<Operation>(managementOperations)].flatMap(
        ({ method, path }) => {
          const url = path.replaceAll(/\{(\w+)\}/g, ':$1')
          return method === 'get' ? [`GET ${url}`, `HEAD ${url}`] : [`${method.toUpperCase()} ${url}`]
        },
      ),
    )
    const answering = routesOf(office.app.printRoutes({ commonPrefix: false }))
    expect([...known].filter((route) => !answering.includes(route))).toEqual([])
    expect(answering.filter((route) => !known.has(route) && !besides.some((form) => form.test(route)))).toEqual([])
  })

  /** From the tree that Fastify draws, four columns for each branch. */
  function routesOf(drawn: string): string[] {
    const above: string[] = []
    return drawn.split('\n').flatMap((line) => {
      const [, branch = '', part = '', methods = ''] = /^(.*[├└]── )(\S+) \(([A-Z, ]+)\)$/.exec(line) ?? []
      if (branch === '') return []
      const depth = branch.length / 4 - 1
      above.splice(depth, above.length, part)
      return methods.split(', ').map((method) => `${method} ${above.join('')}`)
    })
  }
})

describe('who may', () => {
  /** The answer to a request whose ids lead nowhere: past the entrance it is anything but 401 and 403. */
  const isLetIn = (status: number): boolean => status !== 401 && status !== 403

  test.each(memberRoles.map((role) => [role]))('%s: what the table says, and nothing else', async (role) => {
    // A workspace of its own: what is let in may change things.
    const place = await office.sender()
    const browser = await office.signedIn(role, place.workspaceId)
    for (const { method, path, operationId, scope } of ofWorkspaces) {
      const body = bodies[operationId]
      const answer = await browser.ask(method.toUpperCase(), pathWith(path, { recipient: 'x%40example.com' }), {
        ...(body !== undefined && { body }),
      })
      const may = (scopesOfRole[role] as readonly string[]).includes(scope as string)
      expect([operationId, isLetIn(answer.statusCode)]).toEqual([operationId, may])
    }
  })

  test('each endpoint takes a key with exactly its scope, and refuses one with all others', async () => {
    const place = await office.sender()
    for (const { method, path, operationId, scope } of ofWorkspaces) {
      const url = pathWith(path, { recipient: 'x%40example.com' })
      const just = await office.key(place.workspaceId, scope as Scope)
      const others = await office.key(place.workspaceId, ...scopes.filter((each) => each !== scope))
      const refused = await office.withKey(others, method.toUpperCase(), url, bodies[operationId])
      expect([operationId, refused.statusCode, refused.json<{ code: string }>().code]).toEqual([
        operationId,
        403,
        'insufficient_scope',
      ])
      const allowed = await office.withKey(just, method.toUpperCase(), url, bodies[operationId])
      // These give something away that the key lacks: refused for that, not at the entrance.
      if (!['createKey', 'createInvitation', 'createSmtpCredential'].includes(operationId))
        expect([operationId, isLetIn(allowed.statusCode)]).toEqual([operationId, true])
    }
  })

  test('without key and session every endpoint answers 401; a key is no person and no operator', async () => {
    const key = await office.key(ours.workspaceId, ...scopes)
    for (const { method, path, access, operationId } of all) {
      if (access === 'anyone') continue
      const url = pathWith(path, { recipient: 'x%40example.com' })
      const nobody = await office.browser().ask(method.toUpperCase(), url, { body: bodies[operationId] ?? {} })
      expect([operationId, nobody.statusCode]).toEqual([operationId, 401])
      // A program that forgot its key sends nothing of what a browser does.
      const program = await office.app.inject({ method: method.toUpperCase() as 'GET', url: `/api/v1${url}` })
      expect([operationId, program.statusCode]).toEqual([operationId, 401])
      if (access !== 'member')
        expect([operationId, (await office.withKey(key, method.toUpperCase(), url)).statusCode]).toEqual([
          operationId,
          401,
        ])
    }
  })

  test('what belongs to operators is closed to every role of a workspace', async () => {
    const browser = await office.signedIn('owner', ours.workspaceId)
    const operator = await office.signedIn('viewer', ours.workspaceId, true)
    for (const { method, path, access } of all) {
      if (access !== 'operator') continue
      expect((await browser.ask(method.toUpperCase(), pathWith(path, {}), { body: {} })).statusCode).toBe(403)
      // Feedback that is unmatched belongs to no workspace: its id here is nobody's.
      if (method === 'get' && !path.includes('{'))
        expect((await operator.ask('GET', pathWith(path, {}))).statusCode).toBe(200)
    }
  })

  test('sending and reading a status take keys alone, as the specification says', async () => {
    const browser = await office.signedIn('owner', ours.workspaceId)
    const body = { mailboxId: ours.mailboxId, recipient: 'ada@example.com', subject: 's', bodyText: 'b' }
    expect((await browser.ask('POST', operations.send.path.slice(7), { body })).json()).toMatchObject({
      code: 'invalid_api_key',
    })
    expect((await browser.ask('GET', `/messages/${unknown}`)).json()).toMatchObject({ code: 'invalid_api_key' })
  })

  test('a member who was removed is out at the next request', async () => {
    const place = await office.sender()
    const owner = await office.signedIn('owner', place.workspaceId)
    const gone = await office.signedIn('developer', place.workspaceId)
    expect((await gone.ask('GET', '/messages')).statusCode).toBe(200)
    await owner.ask('DELETE', `/members/${gone.login.id}`)
    expect((await gone.ask('GET', '/messages')).statusCode).toBe(403)
  })
})

describe('members that a request should not have', () => {
  const more = {
    organizationId: unknown,
    workspaceId: unknown,
    id: unknown,
    status: 'active',
    operator: true,
    role: 'owner',
  }

  test('are refused by every endpoint with a body, and change nothing', async () => {
    const operator = await office.signedIn('owner', ours.workspaceId, true)
    for (const { method, path, body, operationId } of all) {
      if (body === undefined) continue
      const known = Object.keys((body as unknown as { properties: object }).properties)
      for (const [name, value] of Object.entries(more)) {
        if (known.includes(name)) continue
        const answer = await operator.ask(method.toUpperCase(), pathWith(path, {}), {
          body: { ...bodies[operationId], [name]: value },
        })
        expect([operationId, answer.statusCode]).toEqual([operationId, 400])
        expect(answer.json()).toMatchObject({ code: 'invalid_request' })
      }
      for (const wrong of ['[]', '"x"', '1', 'null', '{"__proto__":{"operator":true}}', '{', '']) {
        const answer = await operator.ask(method.toUpperCase(), pathWith(path, {}), { body: wrong })
        expect([operationId, wrong, answer.statusCode]).toEqual([operationId, wrong, 400])
      }
    }
  })

  test('unknown members of a query are refused, too', async () => {
    const operator = await office.signedIn('owner', ours.workspaceId, true)
    for (const { method, path, query } of all) {
      if (query === undefined) continue
      for (const text of [
        'workspaceId=x',
        'limit=0',
        'limit=1000',
        'limit=abc',
        'limit=1&limit=2',
        'cursor=%00',
        'cursor=*',
        'cursor=-1',
        'cursor=%ff',
        'cursor=7b0a4f0e-3c1d-4f7a-9a55-0d6f1f2b3c4d',
        `cursor=${Buffer.from('a@example.org').toString('base64url').slice(0, -1)}`,
        `cursor=${Buffer.from('a@example.org').toString('base64url')}!`,
        `cursor=${Buffer.from('no address').toString('base64url')}`,
      ]) {
        const answer = await operator.ask(method.toUpperCase(), `${pathWith(path, {})}?${text}`)
        expect([path, text, answer.statusCode]).toEqual([path, text, 400])
      }
    }
  })
})
