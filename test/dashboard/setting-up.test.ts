// Somebody who sets up a workspace and asks others in: what is offered works, what does not work yet says what is missing, and what cannot be
// taken back asks before.
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { heading, press, signIn, startVisit, type Login, type Visit } from './visit.ts'

let visit: Visit
let workspace: string
let login: Login
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)
const dialog = () => page.getByRole('dialog')

beforeAll(async () => {
  visit = await startVisit()
  workspace = (await visit.posthorn.cli<{ id: string }>('workspace', 'create', '--name', 'Studio')).id
  login = await visit.makeLogin('ann@people.example', workspace, 'owner')
  page = await visit.signedIn(login)
}, 360_000)

test('a mailbox whose domain is not verified says so wherever it would be sent from, with the way to the records', async () => {
  await go('/domains')
  await press(page, 'Add a domain')
  await dialog().getByLabel('Domain').fill('studio.example')
  await dialog().getByRole('button', { name: 'Add' }).click()
  await heading(page, 'studio.example')
  await go('/mailboxes')
  await press(page, 'Add a mailbox')
  await dialog().getByLabel('Address').fill('hello@studio.example')
  await dialog().getByRole('button', { name: 'Add' }).click()
  await page.getByRole('link', { name: 'Domain not verified' }).click()
  await heading(page, 'studio.example')
  for (const path of ['/', '/settings']) {
    await go(path)
    await page.getByText('studio.example is not verified').waitFor()
    expect(await page.getByRole('figure', { name: 'curl' }).count()).toBe(0)
  }
})

test('a first key stays to be copied when the first message has come', async () => {
  await visit.posthorn.query(`update domains set status = 'verified', verified_at = now() where workspace_id = $1`, [
    workspace,
  ])
  await go('/')
  await press(page, 'Make a key')
  await page.getByText('Copy it now').waitFor()
  const line = (await page.getByRole('figure', { name: 'curl' }).textContent()) ?? ''
  // No line is wider than its box on a desk: what is copied is seen.
  const code = page.getByRole('figure', { name: 'curl' }).locator('pre')
  expect(await code.evaluate((lines) => lines.scrollWidth - lines.clientWidth)).toBe(0)
  const [, key = '', mailboxId = ''] = /Bearer (\S+)'.*"mailboxId": "([^"]+)"/s.exec(line) ?? []
  const sent = await fetch(`${visit.posthorn.url}/api/v1/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ mailboxId, recipient: 'delivered@simulator.posthorn.test', subject: 'Hi', bodyText: 'Hi' }),
  })
  expect(sent.status).toBe(202)
  await page.getByRole('link', { name: 'delivered@simulator.posthorn.test' }).waitFor()
  await page.getByText('Copy it now').waitFor()
  expect(await page.locator('main code').first().textContent()).toBe(key)
})

test('a mailbox is disabled after a question: its mail that still waits is lost by it', async () => {
  await go('/mailboxes')
  await press(page, 'Disable hello@studio.example')
  await dialog().getByText('fails for good').waitFor()
  await press(page, 'Cancel')
  await page.getByText('Active', { exact: true }).waitFor()
  await press(page, 'Disable hello@studio.example')
  await press(page, 'Disable')
  await press(page, 'Enable hello@studio.example')
  await page.getByText('Active', { exact: true }).waitFor()
})

test('a mailbox is removed after a question, and its domain when it has none any more', async () => {
  await go('/mailboxes')
  await press(page, 'Add a mailbox')
  await dialog().getByLabel('Address').fill('old@studio.example')
  await dialog().getByRole('button', { name: 'Add' }).click()
  await press(page, 'Remove old@studio.example')
  await dialog().getByText('with a new id').waitFor()
  await dialog().getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove old@studio.example' }).waitFor({ state: 'detached' })
  await go('/domains')
  await page.getByRole('link', { name: 'studio.example' }).click()
  await press(page, 'Remove')
  await dialog().getByRole('button', { name: 'Remove' }).click()
  await dialog().getByText('remove its mailboxes first').waitFor()
  await go('/mailboxes')
  await press(page, 'Remove hello@studio.example')
  await dialog().getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No mailbox yet.').waitFor()
  await go('/domains')
  await page.getByRole('link', { name: 'studio.example' }).click()
  await press(page, 'Remove')
  await dialog().getByRole('button', { name: 'Remove' }).click()
  await heading(page, 'Domains')
  await page.getByRole('link', { name: 'studio.example' }).waitFor({ state: 'detached' })
})

test('somebody with an account who accepts an invitation sees the workspace that they were invited to', async () => {
  const person = await visit.browser.person()
  const other = (await visit.posthorn.cli<{ id: string }>('workspace', 'create', '--name', 'Elsewhere')).id
  const bob = await visit.makeLogin('bob@people.example', other, 'owner')
  await go('/members')
  await press(page, 'Invite')
  await dialog().getByLabel('E-mail').fill(bob.email)
  await dialog().getByRole('button', { name: 'Invite' }).click()
  await page.getByRole('cell', { name: bob.email, exact: true }).waitFor()
  const read = () =>
    visit.posthorn.query<{ content: Buffer }>('select content from sandbox_mail where recipient = $1', [bob.email])
  await expect.poll(async () => (await read()).length, { timeout: 30_000, interval: 20 }).toBe(1)
  const text = String((await read())[0]?.content)
    .replaceAll('=\r\n', '')
    .replaceAll('=3D', '=')
  const token = /accept-invitation#token=([\w-]+)/.exec(text)?.[1]
  await signIn(person, visit.origin, bob)
  await heading(person, 'Overview')
  await person.goto(`${visit.origin}/accept-invitation#token=${token}`)
  // Names change, and two workspaces may have the same.
  await person.getByText('To Studio as').waitFor()
  await visit.posthorn.query(`update workspaces set own_name = 'Studio two' where id = $1`, [workspace])
  await press(person, 'Accept')
  await heading(person, 'Overview')
  await person.getByRole('button', { name: /^Studio two/ }).waitFor()
})

test('a domain beyond ASCII stands as DNS has it, and as people write it beside that', async () => {
  await go('/domains')
  await press(page, 'Add a domain')
  await dialog().getByLabel('Domain').fill('münchner-straßenbahn.example')
  await dialog().getByRole('button', { name: 'Add' }).click()
  await heading(page, 'xn--mnchner-straenbahn-6qb28c.example')
  await page.getByText('münchner-straßenbahn.example', { exact: true }).waitFor()
  await go('/domains')
  await page.getByRole('link', { name: 'xn--mnchner-straenbahn-6qb28c.example', exact: true }).waitFor()
  await page.getByText('münchner-straßenbahn.example', { exact: true }).waitFor()
})

test('an address beyond ASCII, which browsers do not know, is suppressed by hand', async () => {
  await go('/suppressions')
  await press(page, 'Add')
  await dialog().getByLabel('Address').fill('jürgen@example.com')
  await press(page, 'Suppress')
  await page.getByRole('cell', { name: 'jürgen@example.com', exact: true }).waitFor()
})

test('what is shown once cannot be closed before it is there', async () => {
  await go('/settings')
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('slow')
  let letThrough = () => {}
  const held = new Promise<void>((resolve) => (letThrough = resolve))
  await page.route('**/api/v1/keys', (route) => held.then(() => route.continue()))
  await dialog().getByRole('button', { name: 'Create' }).click()
  await page.keyboard.press('Escape')
  letThrough()
  await dialog().getByText('shown this once').waitFor()
  await press(page, 'I have it')
  await page.unrouteAll({ behavior: 'wait' })
})

test('what is shown once is there as soon as it was made, however long its list takes to be read again', async () => {
  await go('/settings')
  await page.getByRole('cell', { name: 'slow', exact: true }).waitFor()
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('on a train')
  await page.route('**/api/v1/keys', (route) => (route.request().method() === 'POST' ? route.continue() : undefined))
  await dialog().getByRole('button', { name: 'Create' }).click()
  await dialog().getByText('shown this once').waitFor()
  await press(page, 'I have it')
  await dialog().waitFor({ state: 'detached' })
  // The next one does not wait for that list either.
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('on a ship')
  await dialog().getByRole('button', { name: 'Create' }).click()
  await dialog().getByText('shown this once').waitFor()
  await press(page, 'I have it')
  await page.unroute('**/api/v1/keys')
})

test('what is shown once is not lost by a step back', async () => {
  await go('/')
  await heading(page, 'Overview')
  await page.getByRole('link', { name: 'API & SMTP' }).click()
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('swiped')
  await dialog().getByRole('button', { name: 'Create' }).click()
  const key = dialog().locator('code')
  await key.waitFor()
  const secret = await key.textContent()
  await page.evaluate(`window.steps = 0; addEventListener('popstate', () => window.steps++)`)
  await page.goBack()
  // The step itself, and the one that takes it back.
  await expect.poll(() => page.evaluate('window.steps')).toBe(2)
  expect(await key.textContent()).toBe(secret)
  expect(new URL(page.url()).pathname).toBe('/settings')
  await press(page, 'I have it')
  await dialog().waitFor({ state: 'detached' })
  await page.goBack()
  await heading(page, 'Overview')
})

test('what is shown once outlives the session, and then comes the sign-in', async () => {
  const person = await visit.signedIn(await visit.makeLogin('short@people.example', workspace, 'developer'))
  await person.goto(`${visit.origin}/settings`)
  await press(person, 'Create a key')
  await person.getByRole('dialog').getByLabel('Name').fill('session over')
  await press(person, 'Create')
  const key = person.getByRole('dialog').locator('code')
  await key.waitFor()
  await visit.posthorn.query(
    `delete from sessions where user_id = (select id from users where email = 'short@people.example')`,
    [],
  )
  await person.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))")
  await person.getByRole('status').getByText('Your session has ended').waitFor()
  expect(await key.textContent()).toMatch(/^ph_/)
  await press(person, 'I have it')
  await heading(person, 'Sign in')
  expect(new URL(person.url()).searchParams.get('to')).toBe('/settings')
})

test('what takes the place of what was filled in has the focus, and is read out', async () => {
  await go('/settings')
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('by keys alone')
  await page.keyboard.press('Enter')
  await dialog().getByText('shown this once').waitFor()
  const focused = () =>
    page.evaluate<string>("document.activeElement.getAttribute('role') ?? document.activeElement.tagName")
  await expect.poll(focused).toBe('dialog')
  await page.getByRole('dialog', { name: 'Your new key' }).waitFor()
  await page.keyboard.press('Tab')
  expect(await page.evaluate("document.activeElement.closest('[role=dialog]') !== null")).toBe(true)
  await page.keyboard.press('Escape')
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Create a key')
})

test('"Saved" is not said of what is typed afterwards', async () => {
  await go('/workspace')
  await press(page, 'Save')
  await page.getByText('Saved.').waitFor()
  await page.getByLabel('Name').fill('Another name')
  await page.getByText('Saved.').waitFor({ state: 'detached' })
})
