// A key speaks for its workspace until it is revoked or ends, and not a moment longer, whatever an authenticator remembers.
import { describe, expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import { openDatabase } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { watched } from '../store/watched.test-kit.ts'
import {
  createCredentialFor,
  createKey,
  createKeyFor,
  createWorkspace,
  listKeys,
  makeAuthenticator,
  revokeKeyFor,
  whoseKey,
  setWorkspace,
  type By,
} from './workspace.ts'
import { by, database, db, other, shop, tools, vault } from './workspace.test-kit.ts'

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

  // Whoever uses it once a second took a connection each time, for as long as a statement may take, until nobody's key could be looked up.
  test("a key whose row somebody holds is taken as it is, and takes nobody else's connection", async () => {
    const pool = openDatabase(database.connection, {
      name: 'test',
      connectionsMax: 2,
      answerMs: 30_000,
      waitMs: 3_000,
    })
    const { authenticate, forget } = makeAuthenticator({ db: pool, log: silentLog, publicUrl: 'http://localhost:3000' })
    const held = await createKey(db, shop.id, { name: 'held', scopes: ['mail.send'] })
    const free = await createKey(db, other.id, { name: 'free', scopes: ['mail.send'] })
    await db.transaction(async (tx) => {
      await tx.run('select from api_keys where id = $1 for update', [held.id])
      for (let asked = 1; asked <= 5; asked++) {
        expect(await authenticate(held.key)).toMatchObject({ keyId: held.id })
        forget()
      }
      expect(await authenticate(free.key)).toMatchObject({ keyId: free.id })
    })
    await pool.close()
  })

  // Each key that was used was a statement and a commit of its own: most of what a little mail of each of thousands of workspaces cost.
  test('when very many keys are used, few statements write it down; and of keys alone that were not used lately', async () => {
    let statements = 0
    const counting = watched(db, { asked: (name) => void (statements += name === 'key-used' ? 1 : 0) })
    const { authenticate, forget, quiet } = makeAuthenticator({ db: counting, log: silentLog, publicUrl: '' })
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        createKey(db, [shop, other][at % 2]!.id, { name: 'k', scopes: ['mail.send'] }),
      ),
    )
    const idle = await createKey(db, shop.id, { name: 'idle', scopes: ['mail.send'] })
    const used = async () =>
      new Map(
        [...(await listKeys(db, shop.id)), ...(await listKeys(db, other.id))].map((key) => [key.id, key.lastUsedAt]),
      )
    await Promise.all(made.map(({ key }) => authenticate(key)))
    await quiet()
    const first = await used()
    for (const { id } of made) expect(first.get(id)).toBeInstanceOf(Date)
    expect(first.get(idle.id)).toBeUndefined()
    expect(statements).toBeLessThan(10)
    const before = statements
    forget()
    await Promise.all(made.map(({ key }) => authenticate(key)))
    await quiet()
    expect(statements).toBe(before)
    expect(await used()).toEqual(first)
  })

  // The answer was that of a database that is away: the key seemed to live.
  test('who cannot be told what a revoked key leaves behind hears that it is revoked, and hears the rest when it is revoked once more', async () => {
    const made = await createKey(db, shop.id, { name: 'k', scopes: ['mail.send', 'smtp-credentials.write'] })
    const itself: By = { ...by(shop.id), actor: `key:${made.id}`, scopes: new Set(made.scopes) }
    const login = await createCredentialFor(tools, itself, 'left behind')
    const away = watched(db, {
      asked: (name) => {
        if (name === 'list-made-by-key') throw new Error('Connection terminated')
      },
    })
    await expect(revokeKeyFor({ db: away }, by(shop.id), made.id)).rejects.toMatchObject({
      name: 'Mistake',
      refusal: { code: 'service_unavailable' },
      message: expect.stringContaining('The key is revoked.') as string,
    })
    expect((await listKeys(db, shop.id)).find(({ id }) => id === made.id)?.revokedAt).toBeInstanceOf(Date)
    expect(await revokeKeyFor(tools, by(shop.id), made.id)).toMatchObject({ stillValid: [{ id: login.id }] })
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
    const counting = watched(db, { asked: (name) => (questions += name === 'key-holder' ? 1 : 0) })
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
    const slow = watched(db, {
      answered: (name) => (name === 'key-holder' && ++questions === 1 ? gate.promise : undefined),
    })
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
      const slow = watched(db, {
        answered: async (name) => {
          if (name !== 'key-holder' || ++questions > 1) return
          asked.resolve()
          await gate.promise
        },
      })
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
