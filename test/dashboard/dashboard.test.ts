// The dashboard in a real browser over the whole binary, as people use it: signing in, the first message, keys and logins that are shown once,
// webhooks, suppressions, invitations, roles, the second factor. Whatever strangers write stays text. With PICTURES=1, pictures of every page are left in
// test/dashboard/screenshots.
import { execFile, execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Secret, TOTP } from 'otpauth'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { inspect, startBrowser, type TestBrowser } from '../world/browser.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startScriptedServer, type ScriptedServer } from '../world/scripted-server.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../world/webhook-receiver.ts'
import * as visit from './visit.ts'
import type { Login } from './visit.ts'

const run = promisify(execFile)
/** What a phone sees in a picture. */
const readQrCode = (png: Buffer) =>
  execFileSync('zbarimg', ['--nodbus', '--quiet', '--raw', 'png:-'], { input: png, encoding: 'utf8' }).trim()
const screenshots = fileURLToPath(new URL('screenshots', import.meta.url))
const script = '<img src=x onerror=alert(1)><script>alert(2)</script>'

let posthorn: Posthorn
let receiver: WebhookReceiver
/** A mail server whose "no" is a script. */
let rude: ScriptedServer
let dns: DnsServer
let browser: TestBrowser
/** The first owner, in their own browser. */
let page: Page
let owner: Login
let shop: JourneyWorkspace
let hostile: JourneyWorkspace

beforeAll(async () => {
  rmSync(screenshots, { recursive: true, force: true })
  rude = await ending(startScriptedServer, [
    [
      { send: '220 rude.example\r\n' },
      { expect: 'EHLO *' },
      { send: '250 rude.example\r\n' },
      { expect: /^MAIL FROM/ },
      { send: '250 2.1.0 Ok\r\n' },
      { expect: /^RCPT TO/ },
      { send: `550 5.1.1 ${script}\r\n` },
      'hang',
    ],
  ])
  receiver = await ending(startWebhookReceiver)
  receiver.answer = (_received, response) => void response.writeHead(200).end(script)
  dns = await ending(startDnsServer)
  posthorn = await ending(startPosthorn, {
    settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true', POSTHORN_DNS_SERVERS: dns.address },
  })
  owner = visit.firstLogin(posthorn.said())
  shop = await posthorn.workspace({ name: 'Shop' })
  hostile = await posthorn.workspace({ name: `Hostile ${script}`, route: `smtp://127.0.0.1:${rude.port}` })
  for (const { id } of [shop, hostile])
    await posthorn.cli('user', 'create', '--email', owner.email, '--workspace', id, '--role', 'owner')
  browser = await ending(startBrowser, posthorn.url)
  page = await browser.person()
}, 360_000)

async function makeLogin(email: string, workspace: string, role: string): Promise<Login> {
  const { password } = await posthorn.cli<{ password: string }>(
    'user',
    'create',
    '--email',
    email,
    '--workspace',
    workspace,
    '--role',
    role,
  )
  return { email, password }
}

const signIn = (person: Page, login: Login): Promise<void> => visit.signIn(person, posthorn.url, login)

const go = (path: string, person = page) => person.goto(`${posthorn.url}${path}`)
const press = (name: string | RegExp, person = page) => visit.press(person, name)
const heading = (name: string | RegExp, person = page) => visit.heading(person, name)
const dialog = (person = page) => person.getByRole('dialog')

async function choose(workspace: string): Promise<void> {
  await page.getByRole('button', { name: 'Change the workspace' }).click()
  await page.getByRole('menuitem', { name: workspace, exact: true }).click()
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

describe('somebody new', () => {
  test('is let in with the right password alone', async () => {
    await go('/messages')
    await heading('Sign in')
    await signIn(page, { ...owner, password: 'wrong password' })
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).not.toBe('')
    await page.getByLabel('Password').fill(owner.password)
    await press('Sign in')
    await heading('Overview')
  })

  test('sends a first message with the shown lines, and it appears by itself with its story', async () => {
    await choose('My workspace')
    await press('Make a key')
    // The lines say YOUR_KEY until the key has come back.
    await page.getByText('Copy it now').waitFor()
    const lines = async (language: string) => {
      await press(language)
      return (await page.getByRole('figure', { name: language }).locator('pre').textContent()) ?? ''
    }
    const refused = await run('python3', ['-c', (await lines('Python')).replace(/ph_[\w-]+/, 'ph_wrong')])
    expect(refused.stdout).toMatch(/^401 .*invalid_api_key/)
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', await lines('Node')])
    expect(stdout).toMatch(/^202 /)
    await page.getByRole('link', { name: 'delivered@simulator.posthorn.test' }).click()
    await page.getByRole('heading', { name: 'The provider confirms: delivered' }).waitFor()
    await page.getByText('The conversation with').click()
    await page.getByText('RCPT TO:<delivered@simulator.posthorn.test>').waitFor()
  })
})

describe('programs', () => {
  const revoke = async (name: string) => {
    await press(`Revoke ${name}`)
    await dialog().getByRole('button', { name: 'Revoke' }).click()
  }
  /** It is out of the way of those that work, behind them, and stays to be read. */
  const isRevoked = async (name: string, list = 'API keys') => {
    const row = (of: string) => page.getByRole('group', { name: of, exact: true }).getByRole('row', { name })
    await row(list).waitFor({ state: 'detached' })
    const rest = page.getByRole('region', { name: list }).locator('details')
    if ((await rest.getAttribute('open')) === null) await rest.getByText('Revoked (').click()
    await row(`${list} that are revoked`).getByText('Revoked').waitFor()
  }

  test('get a key that is shown once, and is refused within a second of being revoked', async () => {
    await choose('Shop')
    await go('/settings')
    await press('Create a key')
    await dialog().getByLabel('Name').fill('web shop')
    await dialog().getByRole('button', { name: 'Create' }).click()
    const key = (await dialog().locator('code').textContent()) ?? ''
    expect(key).toMatch(/^ph_/)
    await press('I have it')
    const read = () => fetch(`${posthorn.url}/api/v1/messages/${shop.id}`, { headers: bearer(key) })
    expect((await read()).status).toBe(404)
    await page.reload()
    await page.getByRole('cell', { name: 'web shop', exact: true }).waitFor()
    expect(await page.content()).not.toContain(key)

    const answered = page.waitForResponse((response) => response.request().method() === 'DELETE')
    await revoke('web shop')
    expect((await answered).status()).toBe(200)
    const revoked = performance.now()
    let begun = revoked
    while ((await read()).status !== 401) {
      expect(begun - revoked).toBeLessThan(1_000)
      await wait(20)
      begun = performance.now()
    }
    await isRevoked('web shop')
  })

  test('that a revoked key has made are named, because they still work', async () => {
    const scopes = ['keys.write', 'mail.send'].flatMap((scope) => ['--scope', scope])
    const { key } = await posthorn.cli<{ key: string }>('key', 'create', shop.id, '--name', 'leaked', ...scopes)
    const made = await fetch(`${posthorn.url}/api/v1/keys`, {
      method: 'POST',
      headers: { ...bearer(key), 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'its child', scopes: ['mail.send'] }),
    })
    expect(made.status).toBe(201)
    await page.reload()
    await revoke('leaked')
    await dialog().getByText('“leaked” is revoked; what it has made is not').waitFor()
    expect(await dialog().getByRole('listitem').allTextContents()).toEqual(['its child API key'])
    await press('Done')
    await revoke('its child')
    await isRevoked('its child')
    expect(await dialog().count()).toBe(0)
  })

  test('get an SMTP login, and the shown lines send with it, from each program', async () => {
    await press('Create a credential')
    await dialog().getByLabel('Name').fill('old printer')
    await dialog().getByRole('button', { name: 'Create' }).click()
    const lines = async (program: string) => {
      await press(program)
      return (await dialog().getByRole('figure', { name: program }).locator('pre').textContent()) ?? ''
    }
    // Programs that check certificates are given this one.
    const certificate = join(posthorn.dataDir, 'smtp-tls.pem')
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: certificate, SSL_CERT_FILE: certificate }
    const { stdout: said } = await run(process.execPath, ['--input-type=module', '-e', await lines('Node')], { env })
    expect(said).toMatch(/^250 2\.0\.0 Accepted as /)
    await run('python3', ['-c', await lines('Python')], { env }) // throws where it is not taken
    const line = await lines('swaks')
    const { stdout } = await run('sh', ['-c', line])
    expect(stdout).toMatch(/250 2\.0\.0 Accepted as /)
    await press('I have it')
    expect(await page.content()).not.toContain(/--auth-password (\S+)/.exec(line)?.[1])
    await page.getByRole('cell', { name: 'old printer', exact: true }).waitFor()
    await revoke('old printer')
    await isRevoked('old printer', 'SMTP credentials')
  })

  test('hear of events: the test event reaches the receiver, signed, and stands in the log', async () => {
    await go('/webhook')
    await press('Set the endpoint')
    await dialog().getByLabel('Address').fill(receiver.url)
    await press('Save')
    receiver.secrets.push((await dialog().locator('code').textContent()) ?? '')
    await press('I have it')
    await press('Send a test event')
    const [first] = await receiver.until((all) => all.some(({ proved }) => proved.current !== false))
    const type = first?.event.type ?? ''
    await page.getByRole('row', { name: type }).getByText('Delivered').first().waitFor()
    await page.getByRole('button', { name: type }).first().click()
    // What the receiver answered is shown as what it is.
    await dialog().getByText(script).waitFor()
    await page.keyboard.press('Escape')
    const id = await shop.accepted({ recipient: 'ann@example.com', subject: 'From the log' })
    await page.reload()
    await page.getByRole('button', { name: 'message.queued' }).first().click()
    await dialog().getByRole('button', { name: 'Post the event again' }).click()
    await dialog().getByRole('status').getByText('It is posted again').waitFor()
    await dialog().getByRole('link', { name: 'The message' }).click()
    await heading('From the log')
    expect(page.url()).toContain(id)
  })
})

test('a webhook that was disabled by itself is told where one looks first, until it is enabled again', async () => {
  await posthorn.query(
    `update webhook_endpoints set state = 'disabled', reason = 'receiver_gone', disabled_at = now(), told_of = now() where workspace_id = $1`,
    [shop.id],
  )
  await go('/')
  const trouble = page.getByRole('region', { name: 'Webhook disabled' })
  await trouble.getByText('410 Gone').waitFor()
  await trouble.getByRole('link', { name: 'webhook page' }).click()
  await heading('Webhook')
  await trouble.waitFor()
  await inspect(page, screenshots, 'webhook-disabled')
  await press('Enable')
  await expect.poll(() => trouble.count(), { timeout: 30_000 }).toBe(0)
  await go('/')
  await visit.loaded(page)
  expect(await trouble.count()).toBe(0)
})

test('a domain is added, its records are set as they are shown, and a look says so', async () => {
  await go('/domains')
  await press('Add a domain')
  await dialog().getByLabel('Domain').fill('ours.example')
  await dialog().getByRole('button', { name: 'Add' }).click()
  await heading('ours.example')
  await press('Check now')
  await page.getByText('There is no such record yet.').first().waitFor()
  for (const record of await page.getByRole('main').getByRole('listitem').all()) {
    const [name = '', value = ''] = await record.locator('code').allTextContents()
    const type = await record.locator('dd').first().textContent()
    dns.zone[name] = type === 'CNAME' ? { cname: value } : { txt: [value] }
  }
  await press('Check now')
  await page.getByRole('banner').or(page.getByRole('main')).getByText('Verified').first().waitFor()
  await press('New DKIM key…')
  await press('Make it')
  await expect.poll(() => page.getByText('Signs your mail (DKIM)').count(), { timeout: 30_000 }).toBe(2)

  await press('Add Ed25519 key…')
  await press('Make it')
  const second = page.getByRole('listitem').filter({ hasText: 'Signs your mail a second time' })
  await second.getByText('Not seen yet').waitFor()
  await inspect(page, screenshots, 'domain-ed25519')
  const [name = '', value = ''] = await second.locator('code').allTextContents()
  expect(value).toContain('k=ed25519')
  dns.zone[name] = { txt: [value] }
  await press('Check now')
  await second.getByText('Verified').waitFor()
  delete dns.zone[name]
  await press('Check now')
  await second.getByText('signed with RSA alone').waitFor()
  await page.getByRole('main').getByText('Verified').first().waitFor()
  await press('End it…')
  await press('End it')
  await expect.poll(() => second.count(), { timeout: 30_000 }).toBe(0)
  await page.getByRole('button', { name: 'Add Ed25519 key…' }).waitFor()
})

describe('whom not to write to', () => {
  const recipient = 'nobody@example.com'

  test('a recipient is suppressed by hand, refused, and written to again', async () => {
    await go('/suppressions')
    await press('Add')
    await dialog().getByLabel('Address').fill(recipient)
    await press('Suppress')
    await page.getByRole('cell', { name: recipient, exact: true }).waitFor()
    expect((await shop.send({ recipient })).status).toBe(422)
    await go('/refused')
    await page.getByText('The recipient is suppressed.').waitFor()
    await go('/suppressions')
    await press(`Remove ${recipient}`)
    await dialog().getByRole('button', { name: 'Remove' }).click()
    await page.getByText('Nobody is suppressed.').waitFor()
    expect((await shop.send({ recipient })).status).toBe(202)
  })

  test('what a rule did is taken back', async () => {
    await posthorn.query(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, evidence)
       values ($1, 'ann@example.com', 'Ann@example.com', 'hard_bounce', 'too-strict', '550 5.7.1 ${script}')`,
      [shop.id],
    )
    await page.reload()
    await page.getByText('rule too-strict').waitFor()
    await press('Undo a rule')
    await dialog().getByLabel('Rule').fill('too-strict')
    await press('Take back')
    await dialog().getByText('1 recipient is no longer suppressed.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('Nobody is suppressed.').waitFor()
  })
})

describe('people', () => {
  let viewer: Page

  test('are invited by a mail, and come in by its link', async () => {
    await go('/members')
    await press('Invite')
    await dialog().getByLabel('E-mail').fill('vera@people.example')
    await dialog().getByLabel('Role').selectOption('viewer')
    await dialog().getByRole('button', { name: 'Invite' }).click()
    await page.getByRole('cell', { name: 'vera@people.example', exact: true }).waitFor()
    // The installation's own mail lies in the sandbox of its own workspace.
    await choose('Posthorn')
    await go('/sandbox')
    await page
      .getByRole('row', { name: /vera@people\.example/ })
      .getByRole('link', { name: 'Invitation to Shop' })
      .click()
    const text = (await page.getByRole('region', { name: 'Mail' }).locator('pre').textContent()) ?? ''
    const link = /https?:\/\/\S+accept-invitation\S+/.exec(text)?.[0] ?? ''
    viewer = await browser.person()
    await viewer.goto(`${posthorn.url}${link.slice(new URL(link).origin.length)}`)
    await viewer.getByText('To Shop as viewer').waitFor()
    await viewer.getByLabel('Your name').fill('Vera')
    await viewer.getByLabel('Choose a password').fill('a long enough password')
    await press('Accept', viewer)
    await heading('Overview', viewer)
  })

  test('see what their role lets them do, and the service refuses the rest', async () => {
    const changing =
      /^(?:Create|Add|Invite|Remove|Revoke|Set|Change|Check|Import|Undo|Disable|Enable|New|Post|Send a test|Prepare)/
    const ofShop = 'select id from domains where workspace_id = $1 limit 1'
    const [domain] = await posthorn.query<{ id: string }>(ofShop, [shop.id])
    const ofDomain = `/domains/${domain?.id}`
    for (const path of ['/settings', '/webhook', '/suppressions', '/domains', ofDomain, '/mailboxes', '/members']) {
      await go(path, viewer)
      await visit.loaded(viewer)
      expect(await viewer.getByRole('main').getByRole('button', { name: changing }).all(), path).toHaveLength(0)
    }
    await go('/webhook', viewer)
    await viewer
      .getByRole('button', { name: /^message\./ })
      .first()
      .click()
    await dialog(viewer).getByText('What is posted').waitFor()
    expect(await dialog(viewer).getByRole('button', { name: 'Post the event again' }).count()).toBe(0)
    expect(await viewer.getByText('Operator', { exact: true }).count()).toBe(0)
    const asked = (path: string, body: object, csrf = { 'x-posthorn-csrf': '1' }) =>
      viewer.evaluate<number>(
        `fetch(${JSON.stringify(path)}, { method: 'POST', headers: ${JSON.stringify({
          'content-type': 'application/json',
          ...csrf,
        })}, body: ${JSON.stringify(JSON.stringify(body))} }).then(({ status }) => status)`,
      )
    expect(await asked('/api/v1/keys', { name: 'mine', scopes: ['mail.send'] })).toBe(403)
    expect(await asked('/api/v1/suppressions', { recipient: 'a@b.co' })).toBe(403)
    expect(await asked('/api/v1/operator/workspaces', { name: 'Mine' })).toBe(403)
  })

  test('guard their account with a second factor', async () => {
    const tom = await browser.person()
    const login = await makeLogin('tom@people.example', shop.id, 'developer')
    await signIn(tom, login)
    await heading('Overview', tom)
    await go('/account', tom)
    await press('Set it up…', tom)
    await dialog(tom).getByLabel('Password').fill(login.password)
    await press('Go on', tom)
    await dialog(tom).getByLabel('Code').waitFor()
    const secret = (await dialog(tom).locator('code').textContent()) ?? ''
    expect(readQrCode(await dialog(tom).getByRole('img').screenshot())).toBe(
      await dialog(tom).getByRole('link').getAttribute('href'),
    )
    const totp = new TOTP({ secret: Secret.fromBase32(secret) })
    await dialog(tom).getByLabel('Code').fill(totp.generate())
    await press('Switch on', tom)
    await press('I have them', tom)
    await tom.getByText('10 recovery codes left.').waitFor()
    await press('tom@people.example', tom)
    await tom.getByRole('menuitem', { name: 'Sign out' }).click()
    await heading('Sign in', tom)
    await signIn(tom, login)
    // Nobody else is asked for his code.
    await tom.getByLabel('Code').waitFor()
    expect(await tom.getByRole('alert').count()).toBe(0)
    await tom.getByLabel('E-mail').fill(owner.email)
    expect(await tom.getByLabel('Code').count()).toBe(0)
    await signIn(tom, login)
    await tom.getByLabel('Code').fill('000000')
    await press('Sign in', tom)
    await tom.getByRole('alert').waitFor()
    // The code of a moment ago is used up; the next one counts already.
    await tom.getByLabel('Code').fill(totp.generate({ timestamp: Date.now() + 30_000 }))
    await press('Sign in', tom)
    await heading('Overview', tom)
  })
})

describe('words of strangers', () => {
  const naughty = [
    script,
    '"><svg/onload=alert(3)>',
    '{{constructor.constructor("alert(4)")()}}',
    'javascript:alert(5)',
    '\u202Egnp.exe\u2066 ﷽ Z̮̞̠͙͔ͅḀ̗̞͈̻̗Ḷ͙͎̯̹̞͓G̻O̭̗̮',
    '田中さん 👩‍👩‍👧‍👧 '.repeat(8).trim(),
    'W'.repeat(300),
  ]

  test('in subject, text, file name, metadata and replies stay text', async () => {
    const attachments = [
      { filename: '<img src=x onerror=alert(6)>.txt', contentType: 'text/plain', contentBase64: 'aGVsbG8=' },
    ]
    const ids: string[] = []
    for (const [index, words] of naughty.entries())
      ids.push(
        await shop.accepted({
          recipient: 'delivered@simulator.posthorn.test',
          subject: words,
          bodyText: words,
          ...(index === 0 && { attachments, metadata: { order: script } }),
        }),
      )
    const refused = await hostile.accepted({ recipient: 'ann@rude.example', subject: script })
    await Promise.all([...ids.map((id) => shop.settled(id)), hostile.settled(refused)])
    await page.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
    await go('/messages')
    await page.getByText('javascript:alert(5)').first().waitFor()
    await go(`/messages/${ids[0]}`)
    await heading(script)
    await page.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(hostile.id)})`)
    await go(`/messages/${refused}`)
    await page.getByRole('blockquote').getByText(script).first().waitFor()
    await page.evaluate(`sessionStorage.setItem('workspace', 'none')`)
    await posthorn.query(
      `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
       values ($1, now(), '', 'ann@example.com', $2, $3)`,
      [
        '0199f1c2-0000-7000-8000-0000000000aa',
        `Subject: ${script}\r\nX-Odd: ${script}\r\n\r\n${script}<a href="javascript:alert(7)">x</a>`,
        shop.id,
      ],
    )
    await page.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
    await go('/sandbox/0199f1c2-0000-7000-8000-0000000000aa')
    await page.getByRole('region', { name: 'Mail' }).getByText('javascript:alert(7)').waitFor()
    expect(browser.incidents).toEqual([])
  })
})

describe('every page', () => {
  const paths: Readonly<Record<string, string>> = {
    overview: '/',
    messages: '/messages',
    nothing: '/messages?text=nothing%20like%20this',
    refused: '/refused',
    suppressions: '/suppressions',
    sandbox: '/sandbox',
    mail: '/sandbox/0199f1c2-0000-7000-8000-0000000000aa',
    domains: '/domains',
    mailboxes: '/mailboxes',
    settings: '/settings',
    webhook: '/webhook',
    workspace: '/workspace',
    upgrade: '/upgrade',
    members: '/members',
    audit: '/audit',
    account: '/account',
    'operator-workspaces': '/operator/workspaces',
    'operator-plans': '/operator/plans',
    'operator-queue': '/operator/queue',
    'operator-feedback': '/operator/feedback',
    'operator-health': '/operator/health',
    'no-such-page': '/no/such/page',
  }

  const look = async (person: Page, name: string) => {
    await visit.loaded(person)
    return inspect(person, screenshots, name)
  }

  test('is accessible in light and dark and fits a phone', { timeout: 540_000 }, async () => {
    const { items } = (await (
      await fetch(`${posthorn.url}/api/v1/domains`, { headers: bearer(await keyOf('domains.read')) })
    ).json()) as { items: { id: string }[] }
    await shop.accepted({ recipient: 'ann@example.com', subject: 'Your receipt' })
    const retried = await shop.accepted({ recipient: 'deferred@simulator.posthorn.test', subject: 'Your order' })
    const unknown = await shop.accepted({ recipient: 'unknown@simulator.posthorn.test', subject: 'Your invoice' })
    await shop.until(retried, ({ processingStatus }) => processingStatus === 'retrying')
    await shop.settled(unknown)
    await posthorn.query(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, evidence)
       values ($1, 'bob@example.com', 'bob@example.com', 'hard_bounce', 'mailbox-does-not-exist', '550 5.1.1 <bob@example.com>: Recipient address rejected: User unknown in virtual mailbox table')`,
      [shop.id],
    )
    const all = {
      ...paths,
      domain: `/domains/${items[0]?.id}`,
      retrying: `/messages/${retried}`,
      unknown: `/messages/${unknown}`,
    }
    const findings: string[] = []
    for (const [name, path] of Object.entries(all)) {
      await go(path)
      findings.push(...(await look(page, name)))
    }
    const stranger = await browser.person()
    for (const path of ['sign-in', 'forgot-password', 'reset-password?token=x', 'accept-invitation?token=x']) {
      await go(`/${path}`, stranger)
      findings.push(...(await look(stranger, path.replace(/\?.*/, ''))))
    }
    await go('/settings')
    await press('Create a key')
    await dialog().waitFor()
    findings.push(...(await inspect(page, screenshots, 'dialog')))
    expect(findings).toEqual([])
  })

  const keyOf = async (scope: string) =>
    (await posthorn.cli<{ key: string }>('key', 'create', shop.id, '--name', 'reader', '--scope', scope)).key

  test('and nothing that a stranger wrote did anything', () => {
    expect(browser.incidents).toEqual([])
  })
})
