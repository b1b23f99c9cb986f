// Looking for a message and reading it, in a real browser over the whole binary: the story, the mail itself, the filters, the chart, the keys.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { createTransport, type SendMailOptions } from 'nodemailer'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startBrowser, type TestBrowser } from '../world/browser.ts'
import { startWebhookReceiver, status, type WebhookReceiver } from '../world/webhook-receiver.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { heading, inspector, loaded, signIn, startVisit, type Login, type Visit } from './visit.ts'

const inspect = inspector('reading')
const soon = { interval: 20, timeout: 15_000 }
const script = '<img src=x onerror=alert(1)><script>alert(2)</script>'

let visit: Visit
let receiver: WebhookReceiver
let shop: JourneyWorkspace
let person: Login
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)

beforeAll(async () => {
  receiver = await ending(startWebhookReceiver)
  visit = await startVisit({ settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' } })
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  person = await visit.makeLogin('ann@people.example', shop.id, 'developer')
  page = await visit.signedIn(person)
}, 360_000)

describe('the story of a message', () => {
  test('tells each POST of its webhooks where it happened, and leads to what the receiver said', async () => {
    await visit.posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
    receiver.answer = (request, response) =>
      request.event.type === 'message.queued'
        ? void response.writeHead(503).end(script)
        : void response.writeHead(204).end()
    const id = await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
    await go(`/messages/${id}`)
    const step = (title: string) =>
      page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: title, exact: true }) })
    const accepted = step('Accepted and kept').getByRole('list', { name: 'Webhook' })
    await accepted.getByText('failed: 503').waitFor()
    await accepted.getByText('Webhook: next try').waitFor()
    const delivered = step('The provider confirms: delivered').getByRole('list', { name: 'Webhook' })
    await delivered.getByText('delivered: 204').waitFor()

    // It comes by itself, seconds later.
    receiver.answer = status(200)
    await accepted.getByText('delivered: 200').waitFor()
    await accepted.getByRole('button', { name: 'Webhook', exact: true }).click()
    await page.getByRole('dialog').getByText(script).waitFor()
    await page.keyboard.press('Escape')
  })

  test('tells an event that is being posted from one that waits for its turn', async () => {
    const id = await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
    // Behind many others an event waits for minutes; here as the service then says it.
    type Told = { events: { webhook?: object }[] }
    await page.route(`**/api/v1/messages/${id}/timeline`, async (route) => {
      const told = (await (await route.fetch()).json()) as Told
      const states = ['sending', 'waiting']
      const events = told.events.map((event, index) => ({
        ...event,
        webhook: { attempts: [], state: states[index] ?? 'waiting', nextAttemptAt: '2026-01-01T00:00:00Z' },
      }))
      await route.fulfill({ json: { ...told, events } })
    })
    await go(`/messages/${id}`)
    const webhook = (index: number) => page.getByRole('list', { name: 'Webhook' }).nth(index)
    await webhook(0).getByText('Webhook: being posted').waitFor()
    await webhook(1).getByText('Webhook: waits for its turn').waitFor()
    await page.unrouteAll({ behavior: 'wait' })
  })

  test('says why a webhook failed where the answer of its receiver does not, and which try was sent again', async () => {
    receiver.answer = (request, response) => {
      if (request.event.type === 'message.queued') return void response.writeHead(302, { location: '/there' }).end()
      if (request.event.type === 'message.sending') return void response.writeHead(200).end('x'.repeat(2_000_000))
      response.writeHead(204).end()
    }
    const id = await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
    await go(`/messages/${id}`)
    const dialog = page.getByRole('dialog')
    const webhook = (index: number) => page.getByRole('list', { name: 'Webhook' }).nth(index)
    const open = (index: number) => webhook(index).getByRole('button', { name: 'Webhook', exact: true }).click()
    // The answer was 200, and yet it failed.
    await webhook(1).getByText('failed: too large').first().waitFor()
    await open(1)
    await dialog.getByText('longer than 1 MB').first().waitFor()
    await page.keyboard.press('Escape')
    await webhook(0).getByText('failed: 302').first().waitFor()
    await open(0)
    await dialog.getByText('Redirects are not followed').first().waitFor()
    receiver.answer = status(200)
    await dialog.getByRole('button', { name: 'Post the event again' }).click()
    await dialog.getByText('posted again, try 1').waitFor()
    await page.keyboard.press('Escape')
    await webhook(0).getByRole('button', { name: 'Webhook, posted again', exact: true }).waitFor()
  })

  test('has no webhooks for a key that may not read their log', async () => {
    const args = ['key', 'create', shop.id, '--name', 'reader', '--scope', 'mail.read']
    const { key } = await visit.posthorn.cli<{ key: string }>(...args)
    const headers = { authorization: `Bearer ${key}` }
    const list = await fetch(`${visit.origin}/api/v1/messages`, { headers })
    const { items } = (await list.json()) as { items: { id: string }[] }
    const story = await (await fetch(`${visit.origin}/api/v1/messages/${items[0]?.id}/timeline`, { headers })).text()
    expect(story).toContain('message.queued')
    expect(story).not.toContain('"webhook"')
  })
})

describe('the mail itself', () => {
  /** Another host, which must hear nothing. */
  let elsewhere: Server
  let heard: string[]
  /** A browser whose complaints of the policy are wanted. */
  let strict: TestBrowser
  let reader: Page
  beforeAll(async () => {
    heard = []
    elsewhere = createServer((request, response) => {
      heard.push(`${request.method} ${request.url}`)
      response.end()
    })
    elsewhere.on('connection', () => heard.push('connection'))
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
    strict = await startBrowser(visit.origin)
    reader = await strict.person()
    await signIn(reader, visit.origin, person)
    await heading(reader, 'Overview')
  })
  afterAll(async () => {
    await strict?.close()
    elsewhere?.close()
  })
  const submit = async (mail: SendMailOptions): Promise<string> => {
    const login = await visit.posthorn.cli<{ username: string; password: string }>('smtp-credential', 'create', shop.id)
    const { response } = await createTransport({
      host: '127.0.0.1',
      port: visit.posthorn.smtpPort,
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: login.username, pass: login.password },
    }).sendMail({
      from: shop.address,
      to: 'ann@example.com',
      subject: 'Your invoice',
      attachments: [{ filename: script, content: 'x' }],
      ...mail,
    })
    return /Accepted as (\S+)/.exec(response)?.[1] ?? ''
  }

  test('is shown as text, and as HTML in a frame that runs nothing and from which nobody hears', async () => {
    const away = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
    const id = await submit({
      text: 'Thank you for your order.',
      html: `<!doctype html><html><head><link rel=stylesheet href="${away}/a.css"><link rel=preconnect href="${away}"><base href="${away}/">
        <meta http-equiv=refresh content="0;url=${away}/gone"><style>@import url(${away}/b.css); @font-face{font-family:f;src:url(${away}/f)} h1{color:rgb(1,2,3);font-family:f}</style></head>
        <body><h1 onclick=alert(1)>Thank you</h1>${script}<svg onload=alert(3)></svg><img src="${away}/pixel.png"><img src="/api/v1/session">
        <iframe src="${away}/frame"></iframe><object data="${away}/object"></object><video src="${away}/video" autoplay></video>
        <form action="${away}/form"><button id=send>Send</button></form><a id=link href="${away}/link">Pay</a>
        <svg width="99" height="99"><a><set attributeName="href" to="${away}/drawn"/><rect id=drawn width="99" height="99"/></a></svg>
        <script>parent.document.title = 'taken'; fetch('${away}/script')</script></body></html>`,
    })
    await reader.goto(`${visit.origin}/messages/${id}`)
    const mail = reader.getByRole('region', { name: 'Mail' })
    await mail.getByText('Thank you for your order.').waitFor()
    await mail.getByText(script).waitFor()
    await mail.getByRole('button', { name: 'HTML' }).click()
    const frame = reader.frameLocator('iframe')
    const title = frame.getByRole('heading', { name: 'Thank you' })
    await title.waitFor()
    // Its own styles are there, which is what the frame is for.
    const inside = reader.frames().find((each) => each.url().includes('/content/html'))
    expect(await inside?.evaluate(`getComputedStyle(document.querySelector('h1')).color`)).toBe('rgb(1, 2, 3)')
    await frame.locator('#send').click()
    await frame.locator('#link').click()
    await frame.locator('#drawn').click()
    await reader.keyboard.press('Enter')
    await title.waitFor()
    expect(await reader.title()).toBe('Your invoice · Posthorn')
    // Opened outside of its frame, it is the same: nothing runs.
    await reader.goto(`${visit.origin}/api/v1/messages/${id}/content/html?workspace=${shop.id}`)
    await reader.getByRole('heading', { name: 'Thank you' }).waitFor()
    expect(await reader.title()).toBe('Mail')
    // The host was there to be asked all the time.
    expect(heard).toEqual([])
    await fetch(`${away}/heard`)
    expect(heard).toEqual(['connection', 'GET /heard'])
    expect(strict.incidents.filter((line) => /: (?:dialog|error)/.test(line))).toEqual([])
    expect(strict.incidents.length).toBeGreaterThan(0)
  })

  test('shows the pictures that it brings along', async () => {
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const id = await submit({
      html: '<h1>Thank you</h1><img alt="Our shop" src="cid:logo@shop.example"><img alt="Lost" src="cid:lost@shop.example">',
      attachments: [{ filename: 'logo.png', cid: 'logo@shop.example', content: png, encoding: 'base64' }],
    })
    await reader.goto(`${visit.origin}/messages/${id}`)
    await reader.getByRole('button', { name: 'HTML' }).click()
    await reader.frameLocator('iframe').getByRole('img', { name: 'Our shop' }).waitFor()
    const inside = reader.frames().find((each) => each.url().includes('/content/html'))
    expect(await inside?.evaluate(`[...document.images].map((image) => image.naturalWidth)`)).toEqual([1, 0])
  })

  test('is shown in the sandbox as its recipient sees it, its text beside it, and can be taken along whole', async () => {
    const text = 'Thank you for your order, in words.'
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const id = await submit({
      text,
      html: `<h1>Thank you</h1>${script}<img alt="Our shop" src="cid:logo@shop.example">`,
      attachments: [{ filename: 'logo.png', cid: 'logo@shop.example', content: png, encoding: 'base64' }],
    })
    const before = strict.incidents.length
    await reader.goto(`${visit.origin}/messages/${id}`)
    await reader.getByRole('link', { name: 'the sandbox', exact: true }).click()
    const mail = reader.getByRole('region', { name: 'Mail' })
    await mail.getByRole('button', { name: 'HTML', pressed: true }).waitFor()
    await reader.frameLocator('iframe').getByRole('heading', { name: 'Thank you' }).waitFor()
    const inside = reader.frames().find((each) => each.url().includes('/html?'))
    await expect.poll(() => inside?.evaluate(`document.images[1].naturalWidth`), soon).toBe(1)
    await mail.getByRole('button', { name: 'Text' }).click()
    await mail.getByText(text).waitFor()
    const [download] = await Promise.all([
      reader.waitForEvent('download'),
      reader.getByRole('link', { name: 'Download' }).click(),
    ])
    const bytes = await buffer(await download.createReadStream())
    expect(bytes.toString()).toContain(text)
    expect(download.suggestedFilename()).toMatch(/\.eml$/)
    expect(strict.incidents.slice(before).filter((line) => /: (?:dialog|error)/.test(line))).toEqual([])
  })

  test('that is text alone has no other view', async () => {
    const id = await shop.accepted({ recipient: 'ann@example.com', bodyText: 'Only words.' })
    await go(`/messages/${id}`)
    const mail = page.getByRole('region', { name: 'Mail' })
    await mail.getByText('Only words.').waitFor()
    expect(await mail.getByRole('button').count()).toBe(0)
  })

  test('is not asked for after it has expired', async () => {
    const id = await shop.accepted({ recipient: 'ann@example.com', bodyText: 'Gone soon.' })
    await shop.settled(id)
    await visit.posthorn.query(`update messages set finished_at = finished_at - interval '8 days' where id = $1`, [id])
    await go(`/messages/${id}`)
    await page
      .getByRole('region', { name: 'Mail' })
      .getByText(/Expired .*; contents are kept for a while only/)
      .waitFor()
  })

  test('looks right on every screen', async () => {
    const id = await submit({
      text: 'Thank you for your order.',
      html: '<table width="100%"><tr><td style="background:#2f5bea;color:#fff;padding:24px"><h1>Thank you</h1></td></tr><tr><td style="padding:24px">Your order 1042 is on its way.</td></tr></table>',
    })
    await go(`/messages/${id}`)
    await page.getByRole('button', { name: 'HTML' }).click()
    await page.frameLocator('iframe').getByRole('heading', { name: 'Thank you' }).waitFor()
    expect(await inspect(page, 'html')).toEqual([])
  })
})

describe('the list of messages', () => {
  test('is narrowed to days, both included, and the address keeps them', async () => {
    await visit.posthorn.query(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
       select $1, (substr(uuid_floor(noon)::text, 1, 24) || lpad(n::text, 12, '0'))::uuid, $2, 'rest', 'sent', 1, 'a@b.co', 'day' || n || '@d.co', 'day' || n || '@d.co',
              'Old', 'node', noon, noon from generate_series(1, 5) n cross join lateral (select timestamptz '2026-03-01T12:00:00Z' + n * interval '1 day' as noon) made`,
      [shop.id, shop.mailboxId],
    )
    await go('/messages')
    await page.getByLabel('From', { exact: true }).fill('2026-03-03')
    await page.getByLabel('To', { exact: true }).fill('2026-03-05')
    const recipients = () => page.locator('main tbody tr td:first-child').allTextContents()
    await expect.poll(recipients, { interval: 20, timeout: 15_000 }).toEqual(['day4@d.co', 'day3@d.co', 'day2@d.co'])
    expect(page.url()).toContain('from=2026-03-03&to=2026-03-05')
    await page.reload()
    await expect.poll(recipients, { interval: 20, timeout: 15_000 }).toEqual(['day4@d.co', 'day3@d.co', 'day2@d.co'])
    await page.getByLabel('State').selectOption('failed')
    await page.getByText('Nothing was found.').waitFor()
    expect(await inspect(page, 'days')).toEqual([])
    await page.getByLabel('To', { exact: true }).fill('2026-03-01')
    await page.getByText('This is before “From”.').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByRole('link', { name: 'ann@example.com' }).first().waitFor()
  })

  test('an address with days that are none is the whole list', async () => {
    await go('/messages?from=yesterday&to=2026-99-99')
    await page.getByRole('link', { name: 'ann@example.com' }).first().waitFor()
  })
})

test('the chart says the exact numbers of each point to the arrow keys', async () => {
  await shop.accepted({ recipient: 'ann@example.com' })
  await go('/')
  const chart = page.getByRole('slider', { name: 'A point of the chart' })
  await chart.focus()
  await page.keyboard.press('End')
  const said = () => chart.getAttribute('aria-valuetext')
  await expect.poll(said, { interval: 20, timeout: 15_000 }).toMatch(/Accepted [1-9]/)
  const last = Number(await chart.getAttribute('aria-valuenow'))
  expect(await inspect(page, 'chart')).toEqual([])
  // Neither another theme nor another size has taken the point away.
  expect(await said()).toMatch(/Accepted [1-9]/)
  expect(await page.getByRole('main').getByText('Accepted', { exact: true }).count()).toBeGreaterThan(1)
  await page.keyboard.press('ArrowLeft')
  expect(Number(await chart.getAttribute('aria-valuenow'))).toBe(last - 1)
  await page.keyboard.press('Home')
  expect(await chart.getAttribute('aria-valuenow')).toBe('0')
  expect(await said()).toMatch(/: nothing$/) // of an hour before this run, however long it takes
  await page.keyboard.press('Escape')
  expect(await said()).toMatch(/arrow keys/)
  // And to the mouse.
  const box = await chart.boundingBox()
  if (box === null) throw new Error('the chart is not there')
  await page.mouse.move(box.x + box.width - 36, box.y + box.height / 2)
  await expect.poll(said, { interval: 20, timeout: 15_000 }).toMatch(/Accepted [1-9]/)
})

describe('keys', () => {
  const focused = () => page.evaluate<string>('document.activeElement.textContent')
  const isWriting = () => page.evaluate<boolean>(`document.activeElement.matches('input[type=search]')`)

  test('lead to pages, through a list and to the search', async () => {
    for (const name of ['ann', 'bob', 'carol']) await shop.accepted({ recipient: `${name}@example.com` })
    await go('/domains')
    await loaded(page)
    await page.keyboard.press('g')
    await page.keyboard.press('m')
    await heading(page, 'Messages')
    await page.locator('main tbody tr').nth(2).waitFor()
    const names = await page.locator('main tbody tr td:first-child').allTextContents()
    await page.keyboard.press('j')
    expect(await focused()).toBe(names[0])
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    expect(await focused()).toBe(names[2])
    await page.keyboard.press('k')
    expect(await focused()).toBe(names[1])
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'What happened' }).waitFor()
    // From a page without a search, to the one that has it.
    await page.keyboard.press('/')
    await heading(page, 'Messages')
    await expect.poll(isWriting, { interval: 20, timeout: 15_000 }).toBe(true)
  })

  test('are letters like others where somebody writes, and nothing in a dialog or with Ctrl', async () => {
    await go('/messages')
    await loaded(page)
    await page.keyboard.press('/')
    await page.keyboard.type('gm?/jk')
    expect(await page.getByLabel('Search').inputValue()).toBe('gm?/jk')
    expect(await page.getByRole('dialog').count()).toBe(0)
    await page.getByLabel('State').focus()
    await page.keyboard.press('j')
    await page.getByRole('main').click({ position: { x: 2, y: 2 } })
    await page.keyboard.press('Control+j')
    expect(await page.evaluate('document.activeElement === document.body')).toBe(true)
    await page.keyboard.press('?')
    const list = page.getByRole('dialog', { name: 'Keys' })
    await list.getByText('Search messages').waitFor()
    expect(await inspect(page, 'keys')).toEqual([])
    await page.keyboard.press('g')
    await page.keyboard.press('d')
    await list.waitFor()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    await heading(page, 'Messages')
  })

  test('can be switched off, and on again', async () => {
    await page.keyboard.press('?')
    await page.getByLabel('Keys are on in this browser').uncheck()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('j')
    expect(await page.evaluate('document.activeElement.closest("tbody")')).toBeNull()
    await page.keyboard.press('?')
    await page.getByLabel('Keys are on in this browser').check()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('g')
    await page.keyboard.press('o')
    await heading(page, 'Overview')
  })
})
