// What happens meanwhile: an answer that comes while somebody is at another thing already, something that somebody else has changed, keys faster than
// the page. Nothing is told of the wrong thing, nothing goes twice, and what was done by one does not end what another has begun.
import type { Page } from 'playwright-core'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startWebhookReceiver } from '../world/webhook-receiver.ts'
import { heading, press, startVisit, type Login, type Visit } from './visit.ts'

let visit: Visit
let shop: JourneyWorkspace
let bakery: JourneyWorkspace
let login: Login
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)
const dialog = () => page.getByRole('dialog')
/** As somebody who comes back to the tab. */
const lookAgain = () => page.evaluate(`document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)

beforeAll(async () => {
  visit = await startVisit({ settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' } })
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  bakery = await visit.posthorn.workspace({ name: 'Bakery' })
  login = await visit.makeLogin('ann@people.example', shop.id, 'owner')
  page = await visit.signedIn(login)
}, 360_000)

afterEach(() => page.unrouteAll({ behavior: 'wait' }))

test('an import tells what became of it: its dialog stays until then, and takes no second file beside the first', async () => {
  await go('/suppressions')
  await press(page, 'Import')
  const answered = Promise.withResolvers<void>()
  let asked = 0
  await page.route('**/api/v1/suppressions/import', async (route) => {
    asked++
    await answered.promise
    await route.continue()
  })
  const choose = (text: string) =>
    dialog()
      .getByLabel('CSV file')
      .setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
  await choose('one@import.example\n')
  await dialog().getByText('a.csv is being read…').waitFor()
  await choose('two@import.example\n')
  await page.keyboard.press('Escape')
  expect(await dialog().isVisible()).toBe(true)
  await dialog().getByRole('button', { name: 'Close' }).last().click()
  expect(await dialog().isVisible()).toBe(true)
  answered.resolve()
  await dialog().getByText('1 added, 0 were there already.').waitFor()
  expect(asked).toBe(1)
  await dialog().getByRole('button', { name: 'Close' }).last().click()
  await dialog().waitFor({ state: 'detached' })
})

test('a mailbox that is enabled ends no question about another, and tells nothing there', async () => {
  const [, domain = ''] = shop.address.split('@')
  const off = await visit.posthorn.cli<{ id: string }>('mailbox', 'add', shop.id, `off@${domain}`)
  await visit.posthorn.query(`update mailboxes set status = 'disabled' where id = $1`, [off.id])
  await go('/mailboxes')
  const answered = Promise.withResolvers<void>()
  await page.route(`**/api/v1/mailboxes/${off.id}`, (route) => answered.promise.then(() => route.continue()))
  await press(page, `Enable off@${domain}`)
  await press(page, `Disable ${shop.address}`)
  answered.resolve()
  await page.getByRole('button', { name: `Disable off@${domain}`, includeHidden: true }).waitFor({ state: 'attached' })
  await dialog().getByText(`Mail from ${shop.address} is refused at once`).waitFor()
  await dialog().getByRole('button', { name: 'Cancel' }).click()
  await dialog().waitFor({ state: 'detached' })
})

test('an endpoint that was enabled and is disabled by itself since does not say that events are posted', async () => {
  const receiver = await ending(startWebhookReceiver)
  await visit.posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
  await visit.posthorn.cli('webhook', 'disable', shop.id)
  await go('/webhook')
  const endpoint = page.getByRole('region', { name: 'Endpoint' })
  await endpoint.getByRole('button', { name: 'Enable' }).click()
  await endpoint.getByText('Events are posted from now on.').waitFor()
  await visit.posthorn.query(
    `update webhook_endpoints set state = 'disabled', reason = 'receiver_gone', disabled_at = now() where workspace_id = $1`,
    [shop.id],
  )
  const disabled = endpoint.getByText('The receiver said “410 Gone” to the last try at an event.')
  await expect.poll(() => lookAgain().then(() => disabled.count()), { interval: 500, timeout: 24_000 }).toBe(1)
  expect(await endpoint.getByText('Events are posted from now on.').count()).toBe(0)
})

test('what somebody else has done to the endpoint meanwhile is told before it is undone, and not with what was filled in', async () => {
  const place = await visit.posthorn.workspace({ name: 'Two people' })
  const person = await visit.signedIn(await visit.makeLogin('two@people.example', place.id, 'owner'))
  const asked = () => person.getByRole('dialog')
  const told = () => asked().getByRole('alert').getByText('changed since you read it').waitFor()
  const shown = () =>
    visit.posthorn.cli<{ url: string; events?: string[]; rotating: boolean }>('webhook', 'show', place.id)
  await person.goto(`${visit.origin}/webhook`)
  await press(person, 'Set the endpoint')
  await asked().getByLabel('Address').fill('http://localhost:1/hers')
  await visit.posthorn.cli('webhook', 'set', place.id, '--url', 'http://localhost:1/his')
  await press(person, 'Save')
  await told()
  expect(await shown()).toMatchObject({ url: 'http://localhost:1/his' })
  // What is so now stands beside what was filled in, which is still there; saved once more, it counts.
  await asked().getByText('It is http://localhost:1/his now, for all events.').waitFor()
  await press(person, 'Save')
  await asked().waitFor({ state: 'detached' })
  expect(await shown()).toMatchObject({ url: 'http://localhost:1/hers' })

  await press(person, 'Change')
  await asked().getByLabel('All of them').uncheck()
  await asked().getByLabel('message.sent').check()
  await visit.posthorn.cli('webhook', 'set', place.id, '--url', 'http://localhost:1/moved')
  await press(person, 'Save')
  await told()
  expect(await shown()).toMatchObject({ url: 'http://localhost:1/moved' })
  await person.keyboard.press('Escape')

  // The first has given the secret that was prepared to the receiver.
  await press(person, 'Prepare a new secret…')
  await visit.posthorn.cli('webhook', 'rotate', place.id)
  await asked().getByRole('button', { name: 'Prepare' }).click()
  await told()
  await person.keyboard.press('Escape')
  await press(person, 'Promote it…')
  await visit.posthorn.cli('webhook', 'rotate', place.id)
  await asked().getByRole('button', { name: 'Promote' }).click()
  await told()
  expect(await shown()).toMatchObject({ rotating: true })
  await person.context().close()
})

test('who has gone on while a domain was being added is led nowhere by its answer', async () => {
  await go('/')
  await heading(page, 'Overview')
  await page.getByRole('link', { name: 'Domains' }).click()
  const answered = Promise.withResolvers<void>()
  await page.route('**/api/v1/domains', async (route) => {
    if (route.request().method() === 'POST') await answered.promise
    await route.continue()
  })
  await press(page, 'Add a domain')
  await dialog().getByLabel('Domain').fill('slow.example')
  await dialog().getByRole('button', { name: 'Add', exact: true }).click()
  await page.goBack()
  await heading(page, 'Overview')
  // What the answer leads to is behind what it lets be read again.
  const readAgain = page.waitForResponse(
    (response) => response.url().endsWith('/api/v1/domains') && response.request().method() === 'GET',
  )
  answered.resolve()
  await (await readAgain).finished()
  await page.getByRole('link', { name: 'Messages', exact: true }).hover()
  expect(new URL(page.url()).pathname).toBe('/')
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Overview')
})

test('a first message that comes while a key is being made does not take the key away', async () => {
  const fresh = await visit.posthorn.workspace({ name: 'Fresh' })
  const person = await visit.signedIn(await visit.makeLogin('new@people.example', fresh.id, 'owner'))
  const answered = Promise.withResolvers<void>()
  await person.route('**/api/v1/keys', (route) => answered.promise.then(() => route.continue()))
  await press(person, 'Make a key')
  await fresh.accepted({ recipient: 'ann@example.com' })
  await person.getByRole('link', { name: 'ann@example.com' }).waitFor()
  answered.resolve()
  await person.getByText('Copy it now: it is shown this once.').waitFor()
  await person.context().close()
})

test('a message is looked for in a workspace that somebody has come into meanwhile, too', async () => {
  const id = await bakery.accepted({ recipient: 'ann@example.com', subject: 'Fresh bread' })
  await go(`/messages/${id}`)
  await page.getByText('No message with this id exists in your workspace.').waitFor()
  await visit.posthorn.cli('user', 'create', '--email', login.email, '--workspace', bakery.id, '--role', 'viewer')
  await lookAgain()
  await page.getByRole('button', { name: 'Change to Bakery' }).click()
  await heading(page, 'Fresh bread')
})

test('invitations that cannot be read are not told as none', async () => {
  await page.route('**/api/v1/invitations', (route) =>
    route.fulfill({ status: 403, json: { error: 'Not for you.', code: 'insufficient_scope' } }),
  )
  await go(`/members?workspace=${shop.id}`)
  const open = page.getByRole('region', { name: 'Open invitations' })
  await open.getByRole('alert').getByText('Not for you.').waitFor()
})

test('an answer that was lost to what a link does once is told as not known: the link would say that it was used', async () => {
  const mailed = async (recipient: string, link: RegExp) => {
    const read = async () => {
      const rows = await visit.posthorn.query<{ mail: string }>(
        `select convert_from(content, 'UTF8') mail from sandbox_mail where recipient = $1`,
        [recipient],
      )
      const text = rows.map(({ mail }) => mail.replaceAll('=\r\n', '').replaceAll('=3D', '=')).join('\n')
      return link.exec(text)?.[0]
    }
    await expect.poll(read, { interval: 20, timeout: 30_000 }).toBeDefined()
    return (await read()) ?? ''
  }
  const person = await visit.browser.person()
  /** What is asked is done, and nobody hears of it. */
  const lose = (path: string) =>
    person.route(path, async (route) => {
      await route.fetch()
      await route.abort()
    })
  const isDoubted = () => person.getByRole('alert').getByText('Whether this was done is not known').waitFor()

  await go(`/members?workspace=${shop.id}`)
  await press(page, 'Invite')
  await dialog().getByLabel('E-mail').fill('dee@people.example')
  await dialog().getByRole('button', { name: 'Invite' }).click()
  await person.goto(`${visit.origin}/${await mailed('dee@people.example', /accept-invitation#token=[\w-]+/)}`)
  await person.getByLabel('Choose a password').fill('first words of hers')
  await lose('**/invitations/accept')
  await press(person, 'Accept')
  await isDoubted()

  await person.goto(`${visit.origin}/forgot-password`)
  await person.getByLabel('E-mail').fill(login.email)
  await press(person, 'Send the link')
  await person.goto(`${visit.origin}/${await mailed(login.email, /reset-password#token=[\w-]+/)}`)
  await person.getByLabel('New password').fill('some other words')
  await lose('**/password-resets/confirm')
  await press(person, 'Change it')
  await isDoubted()
  await person.context().close()
})
