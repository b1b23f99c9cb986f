// Sessions and signing in over HTTP: attacks T5 to T8.
import { TOTP, Secret } from 'otpauth'
import { afterEach, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { silentLog } from '../base/log.ts'
import { pruneGuesses } from '../store/sign-in-guesses.ts'
import type { Mistake } from '../workspace/mistake.ts'
import { makePeople } from '../workspace/workspace.ts'
import { officeWorld, tokenOf } from './office.test-kit.ts'

const office = await officeWorld()
const shop = await office.sender()
afterEach(() => office.world.setClock())

const signIn = (email: string, password: string, code?: string) => ({
  body: { email, password, ...(code !== undefined && { code }) },
})

/** So many steps from now; the clock stands, or the one before could be two steps back by the time that it is looked at. */
async function codesOf(totp: TOTP): Promise<(steps: number) => string> {
  const now = new Date()
  await office.world.setClock(now.toISOString())
  return (steps) => totp.generate({ timestamp: now.getTime() + steps * 30_000 })
}

/** A node of its own, whose passwords cost nothing. */
const node = () =>
  makePeople({
    ...office.office,
    db: office.world.anotherNode(),
    log: silentLog,
    passwords: { hash: () => Promise.resolve(''), fits: () => Promise.resolve(false) },
  })

describe('a session', () => {
  test('its cookie is out of reach of scripts and other sites, and only its hash is kept', async () => {
    const { email, password } = await office.login('owner', shop.workspaceId)
    const browser = office.browser()
    const answer = await browser.ask('POST', '/session', signIn(email.toUpperCase(), password))
    expect(answer.statusCode).toBe(200)
    const [cookie] = answer.cookies as { name: string; value: string }[]
    expect(cookie).toMatchObject({ name: 'posthorn', path: '/', httpOnly: true, sameSite: 'Strict' })
    const token = cookie?.value as string
    const dump = await office.world.value<string>('select string_agg(s::text, $$$$) from sessions s')
    expect(dump).not.toContain(token)
    expect(dump).not.toContain(Buffer.from(token).toString('hex'))
    expect((await browser.ask('GET', '/session')).json()).toMatchObject({ email, workspaces: [{ role: 'owner' }] })
  })

  test('over HTTPS its name is one that no other host or path can set', async () => {
    const secure = await officeWorld('https://mail.example.org')
    const { email, password } = await secure.login()
    const answer = await secure.browser().ask('POST', '/session', signIn(email, password))
    expect(answer.cookies).toEqual([
      expect.objectContaining({ name: '__Host-posthorn', path: '/', secure: true, httpOnly: true, sameSite: 'Strict' }),
      expect.objectContaining({ name: '__Host-posthorn-device', path: '/', secure: true, httpOnly: true }),
    ])
    expect(answer.cookies.some((cookie) => 'domain' in cookie)).toBe(false)
  })

  test('a token that was planted before the sign-in is worth nothing after it', async () => {
    const { email, password } = await office.login()
    const browser = office.browser()
    const planted = 'A'.repeat(43)
    browser.cookies.set('posthorn', planted)
    await browser.ask('POST', '/session', signIn(email, password))
    expect(browser.cookies.get('posthorn')).not.toBe(planted)
    const attacker = office.browser()
    attacker.cookies.set('posthorn', planted)
    expect((await attacker.ask('GET', '/session')).statusCode).toBe(401)
  })

  test('another sign-in in the same browser ends the session before', async () => {
    const { email, password } = await office.login()
    const browser = office.browser()
    await browser.ask('POST', '/session', signIn(email, password))
    const before = browser.cookies.get('posthorn') as string
    await browser.ask('POST', '/session', signIn(email, password))
    const old = office.browser()
    old.cookies.set('posthorn', before)
    expect((await old.ask('GET', '/session')).json()).toMatchObject({ code: 'not_signed_in' })
    expect((await browser.ask('GET', '/session')).statusCode).toBe(200)
  })

  test('signing out ends it on the server, not in the browser alone', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const token = browser.cookies.get('posthorn') as string
    expect((await browser.ask('DELETE', '/session')).statusCode).toBe(204)
    expect(browser.cookies.has('posthorn')).toBe(false)
    browser.cookies.set('posthorn', token)
    expect((await browser.ask('GET', '/session')).statusCode).toBe(401)
  })

  test('signing out twice at once is written down once', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const id = await office.world.value<string>('select id from sessions where user_id = $1', [browser.login.id])
    const holding = await office.world.holding('select from sessions where id = $1 for update', [id])
    const clicks = [browser.ask('DELETE', '/session'), browser.ask('DELETE', '/session')]
    await office.world.untilWaiting(2)
    await holding.query('commit')
    for (const click of clicks) expect((await click).statusCode).toBe(204)
    expect(
      await office.world.value(
        `select count(*)::integer from audit_log where action = 'session.closed' and target = $1`,
        [id],
      ),
    ).toBe(1)
  })

  test('it ends after days without use, and however much it is used after a month', async () => {
    const { email, password } = await office.login()
    const start = Date.now()
    const days = (many: number) => new Date(start + many * 86_400_000).toISOString()
    const [idle, busy] = [office.browser(), office.browser()]
    for (const browser of [idle, busy]) await browser.ask('POST', '/session', signIn(email, password))
    for (const day of [5, 10, 15, 20, 25, 29]) {
      await office.world.setClock(days(day))
      expect((await busy.ask('GET', '/session')).statusCode).toBe(200)
      if (day === 5) continue
      expect((await idle.ask('GET', '/session')).statusCode).toBe(401)
    }
    await office.world.setClock(days(31))
    expect((await busy.ask('GET', '/session')).statusCode).toBe(401)
  })

  test('a person sees their own sessions and ends one of them, nobody else does', async () => {
    const { email, password } = await office.login()
    const [here, there] = [office.browser(), office.browser()]
    for (const browser of [here, there]) await browser.ask('POST', '/session', signIn(email, password))
    const { items } = (await here.ask('GET', '/account/sessions')).json<{ items: { id: string; current: boolean }[] }>()
    const other = items.find(({ current }) => !current)
    expect(items).toHaveLength(2)
    const stranger = await office.signedIn('owner', shop.workspaceId)
    expect((await stranger.ask('DELETE', `/account/sessions/${other?.id}`)).statusCode).toBe(404)
    expect((await here.ask('DELETE', `/account/sessions/${other?.id}`)).statusCode).toBe(204)
    expect((await there.ask('GET', '/session')).statusCode).toBe(401)
  })
})

/** Checks a password for as long as `meanwhile` takes, as a machine with many sign-ins before this one does. */
const slowly = (meanwhile: () => Promise<unknown>) =>
  makePeople({
    ...office.office,
    log: silentLog,
    passwords: {
      fits: async (...asked) => {
        const fits = await office.office.people.passwords.fits(...asked)
        await meanwhile()
        return fits
      },
      hash: (...asked) => office.office.people.passwords.hash(...asked),
    },
  })

describe('whoever knows the password, and begins before it is changed', () => {
  const sessionsOf = (id: string) =>
    office.world.value<number>('select count(*)::integer from sessions where user_id = $1', [id])
  const newPassword = 'seven quiet herons'

  test('has no session behind the change: it would be one that the change has not ended', async () => {
    const person = await office.login()
    const home = office.browser()
    await home.ask('POST', '/session', signIn(person.email, person.password))
    const change = () => home.ask('POST', '/account/password', { body: { password: person.password, newPassword } })
    const stranger = slowly(change).signIn(person, { address: '192.0.2.66', agent: 'x' })
    await expect(stranger).rejects.toMatchObject({ refusal: { code: 'wrong_credentials' } })
    expect(await sessionsOf(person.id)).toBe(1)
    expect((await home.ask('GET', '/session')).statusCode).toBe(200)
  })

  test('sets none of their own over the one that was chosen by mail', async () => {
    const person = await office.login()
    const there = office.browser()
    await there.ask('POST', '/session', signIn(person.email, person.password))
    const { items } = (await there.ask('GET', '/account/sessions')).json<{ items: { id: string }[] }>()
    const reset = async () => {
      const many = office.sent.length
      const asked = office.browser()
      await asked.ask('POST', '/password-resets', { body: { email: person.email } })
      const token = tokenOf(await office.mail(many + 1))
      const chosen = await asked.ask('POST', '/password-resets/confirm', { body: { token, password: newPassword } })
      expect(chosen.statusCode).toBe(204)
    }
    const holder = { sessionId: items[0]?.id as string, userId: person.id, email: person.email, operator: false }
    const taking = slowly(reset).changePassword(holder, person.password, 'five loud magpies')
    await expect(taking).rejects.toMatchObject({ refusal: { code: 'wrong_credentials' } })
    expect(await sessionsOf(person.id)).toBe(0)
    expect((await office.browser().ask('POST', '/session', signIn(person.email, newPassword))).statusCode).toBe(200)
  })
})

describe('a request that another site makes a browser send', () => {
  const foreign: [string, Record<string, string>][] = [
    ['without the header that only the dashboard sends', { 'x-posthorn-csrf': '' }],
    ['with the Origin of another site', { origin: 'https://evil.example' }],
    ['with the Origin of a sister domain', { origin: 'http://other.localhost:3000' }],
    ['with a null Origin', { origin: 'null' }],
    ['marked as cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['marked as same-site, as from a subdomain', { 'sec-fetch-site': 'same-site' }],
  ]
  test.each(foreign)('%s is refused and changes nothing', async (_how, headers) => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const answer = await browser.ask('POST', '/suppressions', { body: { recipient: 'csrf@example.com' }, headers })
    expect(answer.statusCode).toBe(403)
    expect(answer.json()).toMatchObject({ code: 'cross_site_request' })
    expect((await browser.ask('GET', '/suppressions?prefix=csrf')).json()).toEqual({ items: [] })
    const login = await office.browser().ask('POST', '/session', { ...signIn('a@b.co', 'x'), headers })
    expect(login.statusCode).toBe(403)
  })

  test('a name that a person gives themselves is in the audit log: its row comes with it, or neither', async () => {
    const person = await office.signedIn('viewer', shop.workspaceId)
    const named = () => office.world.value('select name from users where id = $1', [person.login.id])
    const rename = (name: string) => person.ask('PATCH', '/account', { body: { name } })
    expect((await rename('Ada')).statusCode).toBe(200)
    const row = `select json_build_array(action, target, facts) from audit_log where actor = $1 and action = 'user.changed'`
    expect(await office.world.value(row, [`user:${person.login.id}`])).toEqual([
      'user.changed',
      person.login.email,
      { name: 'Ada' },
    ])
    await office.world.db.run(
      `alter table audit_log add constraint full_up check (facts ->> 'name' <> 'Eve') not valid`,
    )
    expect((await rename('Eve')).statusCode).toBe(500)
    await office.world.db.run('alter table audit_log drop constraint full_up')
    expect(await named()).toBe('Ada')
  })

  test('a form, or JSON as text, is refused even with all headers', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
      const body = JSON.stringify({ recipient: 'csrf@example.com' })
      const answer = await browser.ask('POST', '/suppressions', { body, headers: { 'content-type': type } })
      expect(answer.json()).toMatchObject({ code: 'invalid_request', field: 'Content-Type' })
    }
  })
})

describe('guessing passwords', () => {
  test('an unknown address is answered like a wrong password, and takes as long', async () => {
    const { email, password } = await office.login()
    const browser = office.browser()
    const known = await browser.ask('POST', '/session', signIn(email, 'wrong wrong'))
    const unknown = await browser.ask('POST', '/session', signIn('nobody@people.example', 'wrong wrong'))
    expect(unknown.statusCode).toBe(401)
    expect(unknown.body).toBe(known.body)
    let hashed = 0
    const passwords = {
      hash: () => Promise.resolve(''),
      fits: (_password: string, stored: string | null | undefined) => {
        hashed++
        return Promise.resolve(stored === null)
      },
    }
    const people = makePeople({ ...office.office, log: silentLog, passwords })
    const origin = { address: '::1', agent: '' }
    await expect(people.signIn({ email: 'nobody@people.example', password }, origin)).rejects.toThrow(/wrong/)
    expect(hashed).toBe(1)
  })

  test('it is stopped for unknown devices and written down, and the person still gets in where they were before', async () => {
    const person = await office.login()
    const home = office.browser()
    await home.ask('POST', '/session', signIn(person.email, person.password))
    const attempts = limits.accountGuessesMax + 5
    const quick = node()
    // The waits grow to seconds: all at once, as an attacker would, and while the clock stands, because guesses are forgotten with time.
    await office.world.setClock(new Date().toISOString())
    const answers = await Promise.all(
      Array.from({ length: attempts }, (_, n) =>
        quick
          .signIn({ email: person.email, password: `guess ${n}` }, { address: `10.0.0.${n}`, agent: '' })
          .catch(({ refusal }: Partial<Mistake>) => refusal?.code),
      ),
    )
    expect(answers).toContain('wrong_credentials')
    const late = await office.browser().ask('POST', '/session', signIn(person.email, person.password))
    expect(late.statusCode).toBe(429)
    expect(late.headers['retry-after']).toBe('60')
    const again = await home.ask('POST', '/session', signIn(person.email, person.password))
    expect(again.statusCode).toBe(200)
    expect((await refusalsTold(person.id)).slice(0, 12)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32])
  })

  test('strangers may go on for as long as they like: the log tells each hour that they do, and how often by then, in few rows', async () => {
    const { id, email } = await office.login()
    const people = node()
    const beganAt = Date.now()
    const guess = (n: number) =>
      people.signIn({ email, password: `guess ${n}` }, { address: `10.0.0.${n}`, agent: '' }).catch(() => undefined)
    // Slow enough never to be turned away, nor made to wait.
    for (let n = 0; n < 90; n++) {
      await office.world.setClock(new Date(beganAt + n * 60_000).toISOString())
      await guess(n)
    }
    const first = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32]
    expect(await refusalsTold(id)).toEqual([...first, ...first.slice(0, -1)])
    expect(await office.world.value(`select facts ->> 'address' from audit_log where actor = $1 and facts ->> 'times' = '32'`, [`user:${id}`])).toBe('10.0.0.31') // prettier-ignore
    // While the clock is set right behind, too.
    await office.world.setClock(new Date(beganAt - 24 * 3600_000).toISOString())
    await guess(90)
    expect((await refusalsTold(id)).filter((times) => times === 1)).toHaveLength(3)
  })
})

test('a device is known to its own person alone, and no more when the password is another', async () => {
  const [ada, bob] = [await office.login(), await office.login()]
  const [home, work] = [office.browser(), office.browser()]
  const comesIn = async (email: string, password: string, at = home) =>
    (await at.ask('POST', '/session', signIn(email, password))).statusCode
  for (const each of [home, work]) await comesIn(ada.email, ada.password, each)
  for (const { email } of [ada, bob]) await office.browser().ask('POST', '/session', signIn(email, 'not the password'))
  try {
    await office.world.db.run('update sign_in_guesses set count = 1000000, at = app_now()')
    expect([await comesIn(bob.email, bob.password), await comesIn(ada.email, ada.password)]).toEqual([429, 200])
    const newPassword = 'quite another one, and longer'
    const body = { password: ada.password, newPassword }
    expect((await home.ask('POST', '/account/password', { body })).statusCode).toBe(204)
    expect(await comesIn(ada.email, newPassword, work)).toBe(429)
    // Where she chose it she is no stranger, however many go on guessing.
    expect(await comesIn(ada.email, newPassword)).toBe(200)
  } finally {
    await office.world.db.run('delete from sign_in_guesses')
  }
})

/** Which of an hour each row is. */
const refusalsTold = async (person: string) => {
  const rows = await office.world.db.run<{ times: number }>(
    `select (facts ->> 'times')::integer times from audit_log where action = 'session.refused' and actor = $1 order by at, times`,
    [`user:${person}`],
  )
  return rows.map(({ times }) => times)
}

describe('guesses at several nodes', () => {
  const origin = { address: '192.0.2.1', agent: '' }
  const guess = (people: ReturnType<typeof node>, email: string) =>
    people.signIn({ email, password: 'a wrong one' }, origin).catch(({ refusal }: Partial<Mistake>) => refusal?.code)

  test('count together, also for one that starts later, and are forgotten with time', async () => {
    const { email } = await office.login()
    const now = Date.now()
    await office.world.setClock(new Date(now).toISOString())
    const nodes = [node(), node(), node()]
    // As many as are looked at even where one of them is seen behind all others, as over a slow connection.
    const many = limits.accountGuessesMax + 1
    const answers = await Promise.all(
      Array.from({ length: many }, (_, n) => guess(nodes[n % nodes.length] as (typeof nodes)[0], email)),
    )
    expect(new Set(answers)).toEqual(new Set(['wrong_credentials']))
    for (const each of [...nodes, node()]) expect(await guess(each, email)).toBe('too_many_attempts')
    // Nobody else waits for it.
    expect(await guess(nodes[0] as (typeof nodes)[0], 'other@people.example')).toBe('wrong_credentials')
    await office.world.setClock(new Date(now + limits.guessForgottenMs).toISOString())
    expect(await guess(node(), email)).toBe('wrong_credentials')
  })

  test('are no list of what strangers typed, and do not stay', async () => {
    await guess(node(), 'typed.by.somebody@people.example')
    const rows = () => office.world.value<string>(`select count(*) from sign_in_guesses`)
    expect(await rows()).not.toBe('0')
    expect(await office.world.value('select string_agg(g::text, $$$$) from sign_in_guesses g')).not.toContain('typed')
    await office.world.setClock(new Date(Date.now() + 20 * limits.codeGuessForgottenMs).toISOString())
    await pruneGuesses(office.world.db, 2)
    expect(await rows()).toBe('0')
  })
})

describe('the second factor', () => {
  test('a code is asked for after the password, counts once, and a recovery code takes its place once', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const { email, password } = browser.login
    expect((await browser.ask('POST', '/account/two-factor', { body: { password: 'not it' } })).statusCode).toBe(401)
    const begun = await browser.ask('POST', '/account/two-factor', { body: { password } })
    const { secret } = begun.json<{ secret: string }>()
    const totp = new TOTP({ secret: Secret.fromBase32(secret) })
    const soon = await codesOf(totp)
    expect((await office.browser().ask('POST', '/session', signIn(email, password))).statusCode).toBe(200) // not in force yet
    const confirmed = await browser.ask('POST', '/account/two-factor/confirm', { body: { code: soon(-1) } })
    const { recoveryCodes } = confirmed.json<{ recoveryCodes: string[] }>()
    expect(recoveryCodes).toHaveLength(limits.recoveryCodes)
    const stored = await office.world.value<string>('select string_agg(u::text, $$$$) from users u')
    expect(stored).not.toContain(secret)

    const fresh = office.browser()
    const asked = await fresh.ask('POST', '/session', signIn(email, password))
    expect(asked.statusCode).toBe(401)
    expect(asked.json()).toMatchObject({ code: 'second_factor_required', field: 'code' })
    expect((await fresh.ask('POST', '/session', signIn(email, 'not the password', soon(0)))).json()).toMatchObject({
      code: 'wrong_credentials',
    })
    const code = soon(0)
    expect((await fresh.ask('POST', '/session', signIn(email, password, code))).statusCode).toBe(200)
    expect((await fresh.ask('POST', '/session', signIn(email, password, code))).statusCode).toBe(401)
    expect((await fresh.ask('POST', '/session', signIn(email, password, recoveryCodes[0]))).statusCode).toBe(200)
    expect((await fresh.ask('POST', '/session', signIn(email, password, recoveryCodes[0]))).statusCode).toBe(401)
    expect((await fresh.ask('GET', '/session')).json()).toMatchObject({ twoFactor: true, recoveryCodesLeft: 9 })

    // Two clicks, one of which has something to switch off.
    for (const _ of [1, 2])
      expect((await fresh.ask('POST', '/account/two-factor/disable', { body: { password } })).statusCode).toBe(204)
    const told = `select count(*)::integer from audit_log where action = 'two_factor.disabled' and actor = $1`
    expect(await office.world.value(told, [`user:${browser.login.id}`])).toBe(1)
    expect((await office.browser().ask('POST', '/session', signIn(email, password))).statusCode).toBe(200)
  })
})

test('a code that put a second factor in force opens nothing more, and a recovery code is its own person’s', async () => {
  const hence = new Date(Date.now() + 3600_000)
  await office.world.setClock(hence.toISOString())
  const withTwoFactors = async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const begun = await browser.ask('POST', '/account/two-factor', { body: { password: browser.login.password } })
    const totp = new TOTP({ secret: Secret.fromBase32(begun.json<{ secret: string }>().secret) })
    const code = totp.generate({ timestamp: hence.getTime() })
    const confirm = () => browser.ask('POST', '/account/two-factor/confirm', { body: { code } })
    const { recoveryCodes } = (await confirm()).json<{ recoveryCodes: string[] }>()
    const enter = async (given = '') => {
      const { email, password } = browser.login
      return (await office.browser().ask('POST', '/session', signIn(email, password, given))).statusCode
    }
    return { code, confirm, enter, recoveryCode: recoveryCodes[0] }
  }
  const [one, other] = [await withTwoFactors(), await withTwoFactors()]
  expect((await one.confirm()).json()).toMatchObject({ code: 'conflict' })
  expect([await one.enter(one.code), await one.enter(other.recoveryCode)]).toEqual([401, 401])
  expect(await other.enter(other.recoveryCode)).toBe(200)
})

test('a code puts in force the secret that it is of, and none that was begun while it was looked at', async () => {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const begun = await browser.ask('POST', '/account/two-factor', { body: { password: browser.login.password } })
  const code = new TOTP({ secret: Secret.fromBase32(begun.json<{ secret: string }>().secret) }).generate()
  const another = `update users set totp_pending_sealed = 'another' where id = $1`
  const confirm = () => browser.ask('POST', '/account/two-factor/confirm', { body: { code } })
  expect((await office.meanwhile(another, browser.login.id, confirm)).json()).toMatchObject({ code: 'conflict' })
  expect((await browser.ask('GET', '/session')).json()).toMatchObject({ twoFactor: false })
})

test('no second factor is begun beside one that came into force while the password was looked at', async () => {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const inForce = `update users set totp_sealed = 'in force' where id = $1`
  const begin = () => browser.ask('POST', '/account/two-factor', { body: { password: browser.login.password } })
  expect((await office.meanwhile(inForce, browser.login.id, begin)).json()).toMatchObject({ code: 'conflict' })
  const pending = 'select totp_pending_sealed from users where id = $1'
  expect(await office.world.value(pending, [browser.login.id])).toBeNull()
})

test('a code is right by the database’s clock, at every node, and a minute beside it wrong', async () => {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const { email, password } = browser.login
  const begun = await browser.ask('POST', '/account/two-factor', { body: { password } })
  const totp = new TOTP({ secret: Secret.fromBase32(begun.json<{ secret: string }>().secret) })
  const hence = new Date(Date.now() + 6 * 3600_000)
  const code = (steps: number) => totp.generate({ timestamp: hence.getTime() + steps * 30_000 })
  await office.world.setClock(hence.toISOString())
  const confirm = async (steps: number) =>
    (await browser.ask('POST', '/account/two-factor/confirm', { body: { code: code(steps) } })).statusCode
  expect([await confirm(-2), await confirm(2), await confirm(-1)]).toEqual([400, 400, 200])
  const enter = async (steps: number) =>
    (await office.browser().ask('POST', '/session', signIn(email, password, code(steps)))).statusCode
  expect([await enter(2), await enter(0)]).toEqual([401, 200])
})

/** Somebody who is signed in, with a second factor that is switched on. */
async function withSecondFactor() {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const body = { password: browser.login.password }
  const begun = await browser.ask('POST', '/account/two-factor', { body })
  const code = await codesOf(new TOTP({ secret: Secret.fromBase32(begun.json<{ secret: string }>().secret) }))
  await browser.ask('POST', '/account/two-factor/confirm', { body: { code: code(-1) } })
  return { browser, code }
}

test('whoever has the password gets few guesses at the code, for hours, and where one signed in before is not shut out', async () => {
  const { browser, code } = await withSecondFactor()
  const { email, password } = browser.login
  const thief = office.browser()
  const guess = async (guessed: string) =>
    (await thief.ask('POST', '/session', signIn(email, password, guessed))).json<{ code?: string }>().code
  for (let guesses = 0; guesses <= limits.codeGuessesMax; guesses++)
    expect(await guess('abcdef')).toBe('wrong_credentials')
  expect(await guess(code(0))).toBe('too_many_attempts')
  expect((await browser.ask('POST', '/session', signIn(email, password, code(0)))).statusCode).toBe(200)
  // Passwords are forgotten by the minute, codes by the hour.
  await office.world.setClock(new Date(Date.now() + 5 * limits.guessForgottenMs).toISOString())
  expect(await guess('abcdef')).toBe('too_many_attempts')
}, 180_000)

test('a device that is written in another way has no guesses of its own', async () => {
  const { browser, code } = await withSecondFactor()
  const { email, password } = browser.login
  // A thief who knows the password and has what the browser keeps for a year; readers of Base64 pass over a dot.
  const device = browser.cookies.get('posthorn-device') as string
  const guess = async (guessed: string, spelt: string) => {
    const thief = office.browser()
    thief.cookies.set('posthorn-device', spelt)
    return (await thief.ask('POST', '/session', signIn(email, password, guessed))).json<{ code?: string }>().code
  }
  for (let guesses = 0; guesses <= limits.codeGuessesMax; guesses++)
    expect(await guess('abcdef', device + '.'.repeat(guesses))).toBe('wrong_credentials')
  expect(await guess(code(0), `${device}.......................`)).toBe('too_many_attempts')
  expect(await guess(code(0), device)).toBe('too_many_attempts')
}, 180_000)

test('whoever has a session alone gets few guesses at a second factor that was begun and left, also all at once, and who knows the password begins anew', async () => {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const { password } = browser.login
  const begin = async () =>
    (await browser.ask('POST', '/account/two-factor', { body: { password } })).json<{ secret: string }>().secret
  const confirm = (code: string) => browser.ask('POST', '/account/two-factor/confirm', { body: { code } })
  const codeOf = (secret: string) => new TOTP({ secret: Secret.fromBase32(secret) }).generate()
  const left = await begin()
  for (let guesses = 0; guesses <= limits.codeGuessesMax; guesses++)
    expect((await confirm('abcdef')).json()).toMatchObject({ code: 'invalid_request', field: 'code' })
  expect((await confirm(codeOf(left))).json()).toMatchObject({ code: 'too_many_attempts' })
  expect((await browser.ask('GET', '/session')).json()).toMatchObject({ twoFactor: false })
  const anew = await begin()
  const atOnce = await Promise.all(Array.from({ length: 5 * limits.codeGuessesMax }, () => confirm('abcdef')))
  const lookedAt = atOnce.filter((answer) => answer.json<{ code: string }>().code === 'invalid_request')
  expect(lookedAt.length).toBeLessThanOrEqual(limits.codeGuessesMax + 1)
  expect((await confirm(codeOf(anew))).json()).toMatchObject({ code: 'too_many_attempts' })
  expect((await confirm(codeOf(await begin()))).statusCode).toBe(200)
})

test('nor does whoever sends many codes at once, each counted before it is looked at', async () => {
  const { browser } = await withSecondFactor()
  const { email } = browser.login
  const passwords = { hash: () => Promise.resolve(''), fits: () => Promise.resolve(true) }
  const people = makePeople({ ...office.office, log: silentLog, passwords })
  const guess = () =>
    people
      .signIn({ email, password: 'known to the thief', code: 'abcdef' }, { address: '::1', agent: '' })
      .catch(({ refusal }: Partial<Mistake>) => refusal?.code)
  const answers = await Promise.all(Array.from({ length: 40 }, guess))
  expect(answers.filter((each) => each === 'wrong_credentials')).toHaveLength(limits.codeGuessesMax + 1)
  expect(answers.filter((each) => each === 'too_many_attempts')).toHaveLength(40 - limits.codeGuessesMax - 1)
})

test('whoever has a session alone gets few guesses at its password, wherever that is asked for', async () => {
  const browser = await office.signedIn('owner', shop.workspaceId)
  const { password } = browser.login
  await office.world.db.run('delete from sign_in_guesses')
  const now = Date.now()
  await office.world.setClock(new Date(now).toISOString())
  const asking = (guess: string) => [
    () => browser.ask('POST', '/account/two-factor', { body: { password: guess } }),
    () => browser.ask('POST', '/account/two-factor/disable', { body: { password: guess } }),
    () =>
      browser.ask('POST', '/account/password', { body: { password: guess, newPassword: 'four little words here' } }),
  ]
  for (const ask of asking('a wrong one')) expect((await ask()).json()).toMatchObject({ code: 'wrong_credentials' })
  const more = 'update sign_in_guesses set count = count + $1 returning count'
  const counts = await office.world.db.run<{ count: number }>(more, [limits.accountGuessesMax - 3])
  expect(counts.map(({ count }) => Math.round(count))).toEqual([limits.accountGuessesMax])
  await asking('a wrong one')[0]?.()
  for (const ask of asking(password)) expect((await ask()).json()).toMatchObject({ code: 'too_many_attempts' })
  await office.world.setClock(new Date(now + limits.guessForgottenMs).toISOString())
  for (const ask of asking(password)) expect((await ask()).statusCode).toBeLessThan(300)
})

describe('passwords', () => {
  test('a reset link is mailed, good once, and ends every session', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const many = office.sent.length
    expect(
      (await office.browser().ask('POST', '/password-resets', { body: { email: 'nobody@x.example' } })).statusCode,
    ).toBe(202)
    expect(
      (await office.browser().ask('POST', '/password-resets', { body: { email: browser.login.email } })).statusCode,
    ).toBe(202)
    const mail = await office.mail(many + 1)
    expect(mail.to).toBe(browser.login.email)
    const token = tokenOf(mail)
    expect(await office.world.value('select string_agg(p::text, $$$$) from password_resets p')).not.toContain(token)
    const confirm = (password: string) =>
      office.browser().ask('POST', '/password-resets/confirm', { body: { token, password } })
    expect((await confirm('short')).json()).toMatchObject({ code: 'invalid_request', field: 'password' })
    expect((await confirm('four new words here')).statusCode).toBe(204)
    expect((await confirm('four new words here')).json()).toMatchObject({ code: 'wrong_credentials' })
    expect((await browser.ask('GET', '/session')).statusCode).toBe(401)
    const again = await browser.ask('POST', '/session', signIn(browser.login.email, 'four new words here'))
    expect(again.statusCode).toBe(200)
  })

  test('of two who come with one reset link at once only one is served, and any new password ends all other links', async () => {
    const browser = await office.signedIn('owner', shop.workspaceId)
    const { email, password } = browser.login
    const link = async () => {
      const many = office.sent.length
      await office.browser().ask('POST', '/password-resets', { body: { email } })
      return tokenOf(await office.mail(many + 1))
    }
    const confirm = async (token: string) => {
      const body = { token, password: 'four new words here' }
      return (await office.browser().ask('POST', '/password-resets/confirm', { body })).statusCode
    }
    const before = await link()
    const after = 'words that I choose'
    expect(
      (await browser.ask('POST', '/account/password', { body: { password, newPassword: after } })).statusCode,
    ).toBeLessThan(300)
    expect(await confirm(before)).toBe(401)
    const [one, other] = [await link(), await link()]
    expect((await Promise.all([confirm(one), confirm(one)])).toSorted()).toEqual([204, 401])
    expect(await confirm(other)).toBe(401)
  })

  test('a reset link is worth nothing after an hour', async () => {
    const { email } = await office.login()
    const many = office.sent.length
    await office.browser().ask('POST', '/password-resets', { body: { email } })
    const token = tokenOf(await office.mail(many + 1))
    await office.world.setClock(new Date(Date.now() + 61 * 60_000).toISOString())
    const late = await office
      .browser()
      .ask('POST', '/password-resets/confirm', { body: { token, password: 'four new words' } })
    expect(late.json()).toMatchObject({ code: 'wrong_credentials' })
  })

  test('a changed password ends all other sessions', async () => {
    const here = await office.signedIn('owner', shop.workspaceId)
    const there = office.browser()
    await there.ask('POST', '/session', signIn(here.login.email, here.login.password))
    const body = { password: here.login.password, newPassword: 'some other words' }
    expect((await here.ask('POST', '/account/password', { body: { ...body, password: 'wrong' } })).statusCode).toBe(401)
    const weak = await here.ask('POST', '/account/password', { body: { ...body, newPassword: 'aaaaaaaaaaaa' } })
    expect(weak.json()).toMatchObject({
      field: 'newPassword',
      error: expect.stringMatching(/^"newPassword" is too easy/),
    })
    expect((await here.ask('POST', '/account/password', { body })).statusCode).toBe(204)
    expect((await here.ask('GET', '/session')).statusCode).toBe(200)
    expect((await there.ask('GET', '/session')).statusCode).toBe(401)
  })
})
