// Browsers other than the one at hand, and other people's settings of them: each test does to Chromium what was seen in Firefox, in WebKit or with
// a setting. The suite needs no other browser; which were tried by hand stands in docs/people.md.
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startBrowser } from '../world/browser.ts'
import { heading, loaded, press, signIn, startVisit, type Login, type Visit } from './visit.ts'

// Several people sign in, each of them after a costly look at the password.
const slow = { timeout: 360_000 }

let visit: Visit
let shop: JourneyWorkspace
let login: Login
let bob: Login
let page: Page

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop', plan: { hourly: 100 } })
  login = await visit.makeLogin('ann@people.example', shop.id, 'owner')
  bob = await visit.makeLogin('bob@people.example', shop.id, 'viewer')
  page = await visit.signedIn(login)
}, 720_000)

test('who signs in with a browser that does not keep the session is told so', slow, async () => {
  // As over plain HTTP, where the installation is set to https.
  const other = await visit.browser.person()
  await other.route('**/api/v1/session', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    const response = await route.fetch()
    await other.context().clearCookies()
    const { 'set-cookie': _, ...headers } = response.headers()
    return route.fulfill({ response, headers })
  })
  await signIn(other, visit.origin, login)
  await other.getByRole('alert').getByText('did not keep the session').waitFor()
  expect(await other.getByLabel('Password').inputValue()).toBe(login.password)
})

test('a browser whose language is no language tag (LANG=C) shows the overview, too', slow, async () => {
  await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
  const other = await visit.browser.person()
  await other.addInitScript("Object.defineProperty(Navigator.prototype, 'language', { get: () => 'C' })")
  await signIn(other, visit.origin, login)
  await heading(other, 'Overview')
  await loaded(other)
  await other.getByRole('slider', { name: 'A point of the chart' }).waitFor()
})

test('two people who share a browser: what one reads never stands under the name of the other', slow, async () => {
  const first = await visit.signedIn(login)
  await first.goto(`${visit.origin}/account`)
  await heading(first, 'Account')
  await first.getByLabel('Name').fill('Ann, not saved')
  const second = await first.context().newPage()
  await signIn(second, visit.origin, bob)
  await heading(second, 'Overview')
  await first.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))")
  await first.getByRole('button', { name: 'bob@people.example' }).waitFor()
  await expect.poll(() => first.getByText('ann@people.example').count(), { timeout: 15_000 }).toBe(0)
  // Nor what one has typed.
  await expect.poll(() => first.getByLabel('Name').inputValue(), { timeout: 15_000 }).toBe('')
})

test('times are told in the language of the sentences around them, whatever the browser speaks', slow, async () => {
  await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
  const storageState = await page.context().storageState()
  const context = await page.context().browser()?.newContext({ locale: 'ar-EG', storageState })
  const other = await context?.newPage()
  if (other === undefined) throw new Error('no browser')
  await other.goto(`${visit.origin}/messages`)
  await expect
    .poll(() => other.evaluate<string | undefined>("document.querySelector('td time')?.textContent"), {
      timeout: 60_000,
    })
    .toMatch(/^(?:just now|\d+ \w+ ago)$/)
  await context?.close()
})

test(
  'a clock that is wrong by a day makes nothing of another day, and takes back no more than it says',
  slow,
  async () => {
    const day = 24 * 3600_000
    const id = await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
    for (const aheadMs of [day, -day]) {
      const other = await visit.browser.person()
      await other.clock.install({ time: Date.now() + aheadMs })
      await signIn(other, visit.origin, login)
      await heading(other, 'Overview')
      await other.goto(`${visit.origin}/messages`)
      await expect
        .poll(() => other.evaluate<string | undefined>("document.querySelector('td time')?.textContent"))
        .toMatch(/^(?:just now|\d+ (?:second|minute)s? ago)$/)
      await other.goto(`${visit.origin}/messages/${id}`)
      await expect
        .poll(() => other.evaluate<string | undefined>("document.querySelector('main ol time')?.textContent"))
        .toMatch(/^\d\d:\d\d:\d\d/) // without a day, which is today
      await other.goto(`${visit.origin}/suppressions`)
      await press(other, 'Undo a rule')
      await other.getByRole('dialog').getByLabel('Rule').fill('no-such-rule')
      await other.getByLabel('Of the last hours').fill('2')
      const asked = other.waitForRequest('**/suppressions/undo')
      await press(other, 'Take back')
      const { since } = (await asked).postDataJSON() as { readonly since: string }
      expect(Math.abs(Date.now() - 2 * 3600_000 - Date.parse(since))).toBeLessThan(60_000)
    }
  },
)

test('a browser whose clock is wrong by a day says when there is room again as any other', slow, async () => {
  const full = await visit.posthorn.workspace({ name: 'Full', plan: { hourly: 1 } })
  await full.accepted({ recipient: 'delivered@simulator.posthorn.test' })
  const carl = await visit.makeLogin('carl@people.example', full.id, 'viewer')
  for (const aheadMs of [24 * 3600_000, -24 * 3600_000]) {
    const other = await visit.browser.person()
    await other.clock.install({ time: Date.now() + aheadMs })
    await signIn(other, visit.origin, carl)
    const words = other.getByRole('region', { name: 'Limit reached' }).getByText('There is room again')
    await expect.poll(() => words.innerText(), { timeout: 60_000 }).toMatch(/in (?:1 hour|\d\d minutes) \(/)
  }
})

test(
  'what has just happened is posted again with the rest by a browser whose clock is some seconds behind',
  slow,
  async () => {
    await visit.posthorn.query(
      `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed) values ($1, 'https://there.example/', '2026-11-01', '')`,
      [shop.id],
    )
    const other = await visit.browser.person()
    await other.clock.install({ time: Date.now() - 9_000 })
    await signIn(other, visit.origin, login)
    await heading(other, 'Overview')
    await other.goto(`${visit.origin}/webhook`)
    await press(other, 'Post again…')
    const asked = other.waitForRequest('**/webhook/replay')
    await press(other, 'Post again')
    const { from, to } = (await asked).postDataJSON() as { readonly from: string; readonly to: string }
    expect(Math.abs(Date.now() - 24 * 3600_000 - Date.parse(from))).toBeLessThan(60_000)
    expect(Date.parse(to)).toBeGreaterThan(Date.now())
    await visit.posthorn.query('delete from webhook_endpoints where workspace_id = $1', [shop.id])
  },
)

test('whoever has an address beyond ASCII is invited, signs in, and asks for a new password', slow, async () => {
  const juergen = await visit.makeLogin('jürgen@people.example', shop.id, 'viewer')
  const other = await visit.signedIn(juergen)
  await other.context().clearCookies()
  await other.goto(`${visit.origin}/forgot-password`)
  await other.getByLabel('E-mail').fill(juergen.email)
  await press(other, 'Send the link')
  await heading(other, 'Look into your mail')
  await page.goto(`${visit.origin}/members`)
  await press(page, 'Invite')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('E-mail').fill('jörg@people.example')
  await dialog.getByRole('button', { name: 'Invite', exact: true }).click()
  await page
    .getByRole('region', { name: 'Open invitations' })
    .getByText('jörg@people.example', { exact: true })
    .waitFor()
})

test('a page that is four times as large shows a day whole, where Firefox needs more room for it', slow, async () => {
  await page.setViewportSize({ width: 320, height: 640 })
  for (const path of ['messages', 'refused']) {
    await page.goto(`${visit.origin}/${path}`)
    await loaded(page)
    await press(page, 'Filters')
    for (const name of ['From', 'To'])
      expect((await page.getByLabel(name, { exact: true }).boundingBox())?.width, path).toBeGreaterThan(150)
  }
  await page.setViewportSize({ width: 1280, height: 900 })
})

test(
  'on a phone a list begins on the first screen, its filters a press away, and says when one of them narrows it',
  slow,
  async () => {
    await shop.settled(await shop.accepted({ recipient: 'somebody.with.a.long.name@simulator.posthorn.test' }))
    await page.setViewportSize({ width: 390, height: 844 })
    const filters = page.getByRole('button', { name: /^Filters/ })
    const state = page.getByLabel('State')
    await page.goto(`${visit.origin}/messages`)
    await loaded(page)
    const row = page.getByRole('row', { name: /somebody/ })
    expect((await row.boundingBox())?.y).toBeLessThan(400)
    expect([await filters.getAttribute('aria-expanded'), await state.isVisible()]).toEqual(['false', false])
    await filters.press('Enter')
    await state.selectOption('failed')
    await page.getByRole('button', { name: 'Filters (1)' }).waitFor()
    await filters.click()
    expect(await state.isVisible()).toBe(false)
    // Who comes by a link, as that of a number on the overview, did not choose it.
    await page.reload()
    await loaded(page)
    await row.waitFor()
    expect([await filters.getAttribute('aria-expanded'), await state.inputValue()]).toEqual(['true', 'failed'])
    // The key that goes to the search does not go to a field among closed filters.
    await page.goto(`${visit.origin}/webhook`)
    await loaded(page)
    await page.keyboard.press('/')
    await heading(page, 'Messages')
    await expect.poll(() => page.evaluate('document.activeElement.name')).toBe('text')
    await page.setViewportSize({ width: 1280, height: 900 })
    await filters.waitFor({ state: 'hidden' })
  },
)

test(
  'on a phone an address stands whole in the lists, where those of one company differ by their ends',
  slow,
  async () => {
    const address = 'someone.of.the.accounting.department@delivered.simulator.posthorn.test'
    await shop.accepted({ recipient: address })
    await page.setViewportSize({ width: 320, height: 640 })
    for (const path of ['', 'messages', 'webhook']) {
      await page.goto(`${visit.origin}/${path}`)
      await loaded(page)
      const link = page.getByRole('link', { name: address }).first()
      await link.waitFor()
      expect(
        await link.evaluate((box) => [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight]),
        path,
      ).toEqual([0, 0])
    }
    await page.setViewportSize({ width: 1280, height: 900 })
  },
)

test('letters are as large as somebody has set their browser', slow, async () => {
  const large = await startBrowser(visit.origin, ['--blink-settings=defaultFontSize=24'])
  try {
    const other = await large.person()
    await other.goto(`${visit.origin}/sign-in`)
    await heading(other, 'Sign in')
    expect(await other.evaluate('getComputedStyle(document.body).fontSize')).toBe('21px')
  } finally {
    await large.close()
  }
})

test('with forced colours what is chosen can still be seen, and the lines of the chart told apart', slow, async () => {
  await page.emulateMedia({ forcedColors: 'active', colorScheme: 'dark' })
  await page.goto(`${visit.origin}/`)
  await loaded(page)
  const [chosen, open, here, elsewhere, meter] = await page.evaluate<string[]>(
    `['[aria-pressed=true]', '[aria-pressed=false]', 'nav [aria-current=page]', 'nav a[href="/messages"]', 'meter']
      .map((one) => getComputedStyle(document.querySelector(one)).backgroundColor)`,
  )
  expect(chosen).not.toBe(open)
  expect(here).not.toBe(elsewhere)
  // How much of the plan is used is a colour, too.
  expect(meter).not.toBe('rgb(0, 0, 0)')
  const colours = await page.evaluate<string[]>(
    "[...document.querySelectorAll('figcaption line')].map((line) => getComputedStyle(line).stroke)",
  )
  expect(new Set(colours).size).toBe(6)
  // A button has only its border to be told from words by.
  await page.goto(`${visit.origin}/settings`)
  await loaded(page)
  expect(
    await page.evaluate<string[]>(
      `[...document.querySelectorAll('main button')].filter(({ textContent }) => /^Create /.test(textContent))
        .map(getComputedStyle).map(({ borderTopWidth, borderTopColor }) => borderTopWidth + ' ' + borderTopColor)`,
    ),
  ).toEqual(Array(2).fill('1px rgb(255, 255, 255)'))
  await page.emulateMedia({ forcedColors: 'none', colorScheme: 'light' })
})

test('a list is printed with all its columns, dark on light, and without the menu', slow, async () => {
  await page.goto(`${visit.origin}/messages`)
  await loaded(page)
  await page.evaluate("document.documentElement.dataset.theme = 'dark'")
  await page.emulateMedia({ media: 'print' })
  // A4 between its margins.
  await page.setViewportSize({ width: 718, height: 1000 })
  expect(await page.getByRole('navigation').isVisible()).toBe(false)
  expect(await page.getByText('Skip to the content').isVisible()).toBe(false)
  expect(await page.getByRole('button', { name: 'Open the menu' }).isVisible()).toBe(false)
  expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(23, 25, 31)')
  const [right, overflow] = await page.evaluate<[number, string]>(
    "[document.querySelector('main table').getBoundingClientRect().right, getComputedStyle(document.querySelector('main [role=group]')).overflowX]",
  )
  expect(right).toBeLessThanOrEqual(718)
  expect(overflow).toBe('visible')
  await page.emulateMedia({ media: 'screen' })
  await page.setViewportSize({ width: 1280, height: 900 })
})

test('a message is printed with all of its text, and without buttons', slow, async () => {
  const bodyText = Array.from({ length: 80 }, (_, line) => `Line ${line}`).join('\n')
  const recipient = 'delivered@simulator.posthorn.test'
  const id = await shop.accepted({ recipient, bodyText })
  await shop.settled(id)
  await page.goto(`${visit.origin}/messages/${id}`)
  const text = page.locator('pre', { hasText: 'Line 79' })
  await text.waitFor()
  const button = page.getByRole('button', { name: 'Copy id' })
  await button.waitFor()
  expect(await text.evaluate((box) => box.scrollHeight - box.clientHeight)).toBeGreaterThan(0)
  await page.emulateMedia({ media: 'print' })
  expect(await text.evaluate((box) => box.scrollHeight - box.clientHeight)).toBe(0)
  expect(await button.isVisible()).toBe(false)
  await page.emulateMedia({ media: 'screen' })
})

test('password managers are told whose password it is that is made or changed', slow, async () => {
  await page.goto(`${visit.origin}/account`)
  await heading(page, 'Account')
  const form = page.locator('form:has([name=newPassword])')
  expect(await form.locator('[autocomplete=username]').inputValue()).toBe(login.email)
})

test('a name that is written from the right is cut at its end, not at its beginning', slow, async () => {
  const name = 'مساحة العمل الطويلة جدا '.repeat(5).trim()
  await page.goto(`${visit.origin}/workspace`)
  await loaded(page)
  const field = page.getByLabel('Name')
  await field.fill(name)
  await field.focus()
  expect(await page.evaluate('getComputedStyle(document.activeElement).direction')).toBe('rtl')
  await press(page, 'Save')
  const here = page.getByRole('complementary').getByText(name)
  await here.waitFor()
  expect(await page.evaluate("getComputedStyle(document.querySelector('aside p')).direction")).toBe('rtl')
  expect(await here.evaluate((box) => box.scrollWidth > box.clientWidth)).toBe(true)
})
