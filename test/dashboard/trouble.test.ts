// People in a hurry and browsers in trouble: pressed twice, no network, a service that is away for a moment, many tabs, the keyboard alone. Nothing
// is done twice or later than asked for, nothing waits for ever without a word, and what is old does not look new.
import type { Page } from 'playwright-core'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { heading, inspector, press, signIn, startVisit, type Visit } from './visit.ts'

let visit: Visit
let shop: JourneyWorkspace
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)
const inspect = inspector('trouble')
const dialog = () => page.getByRole('dialog')
const soon = (read: () => Promise<unknown>) => expect.poll(read, { interval: 20, timeout: 24_000 })

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  page = await visit.signedIn(await visit.makeLogin('ann@people.example', shop.id, 'owner'))
}, 360_000)

afterEach(async () => {
  await page.context().setOffline(false)
  await page.unrouteAll()
})

const keysNamed = async (name: string) =>
  (await visit.posthorn.query('select 1 from api_keys where workspace_id = $1 and name = $2', [shop.id, name])).length

test('what is pressed twice is done once', async () => {
  await go('/settings')
  await press(page, 'Create a key')
  await dialog().getByLabel('Name').fill('twice')
  await dialog().getByRole('button', { name: 'Create' }).dblclick()
  await dialog().getByText('shown this once').waitFor()
  expect(await keysNamed('twice')).toBe(1)
  // An invitation that is taken back twice was not missing the second time.
  await go('/members')
  await press(page, 'Invite')
  await dialog().getByLabel('E-mail').fill('twice@people.example')
  await dialog().getByRole('button', { name: 'Invite' }).click()
  const withdraw = page.getByRole('button', { name: 'Withdraw the invitation of twice@people.example' })
  let asked = 0
  page.on('request', (request) => void (request.method() === 'DELETE' && asked++))
  await withdraw.dblclick()
  await withdraw.waitFor({ state: 'detached' })
  expect(asked).toBe(1)
})

test('a dialog that works stays until its answer: closing would not call it off', async () => {
  await visit.posthorn.cli('suppression', 'add', shop.id, 'slow@example.com')
  await go('/suppressions')
  const answered = Promise.withResolvers<void>()
  await page.route('**/api/v1/suppressions/slow*', (route) => answered.promise.then(() => route.continue()))
  await press(page, 'Remove slow@example.com')
  await dialog().getByRole('button', { name: 'Remove' }).click()
  await dialog().getByRole('button', { name: 'Cancel' }).click()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  expect(await dialog().isVisible()).toBe(true)
  answered.resolve()
  await dialog().waitFor({ state: 'detached' })
})

describe('after a change that did not succeed the page shows what is so', () => {
  test('where its answer was lost, and it happened', async () => {
    await go('/settings')
    await press(page, 'Create a key')
    await dialog().getByLabel('Name').fill('answer lost')
    await page.route('**/api/v1/keys', async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await route.fetch()
      await route.abort()
    })
    await dialog().getByRole('button', { name: 'Create' }).click()
    const alert = dialog().getByRole('alert')
    await alert.getByText('cannot be reached at the moment. Whether this was done is not known: look before').waitFor()
    await page.locator('td').getByText('answer lost').first().waitFor()
    await page.unrouteAll({ behavior: 'wait' })
    await page.keyboard.press('Escape')
  })

  // As Cloudflare says it, of a service that was too slow (524), or whose line broke (520).
  test('where a proxy has given its answer up, by a status of its own', async () => {
    await go('/settings')
    await press(page, 'Create a key')
    await dialog().getByLabel('Name').fill('answer given up')
    await page.route('**/api/v1/keys', async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await route.fetch()
      await route.fulfill({ status: 524, body: '<html>A timeout occurred</html>' })
    })
    await dialog().getByRole('button', { name: 'Create' }).click()
    await dialog().getByRole('alert').getByText('Whether this was done is not known: look before').waitFor()
    await page.locator('td').getByText('answer given up').first().waitFor()
    await page.unrouteAll({ behavior: 'wait' })
    await page.keyboard.press('Escape')
  })

  test('where it is refused for what somebody else did meanwhile', async () => {
    const [, domain = ''] = shop.address.split('@')
    const mailbox = await visit.posthorn.cli<{ id: string }>('mailbox', 'add', shop.id, `gone@${domain}`)
    await go('/mailboxes')
    await press(page, `Disable gone@${domain}`)
    await visit.posthorn.cli('mailbox', 'remove', mailbox.id)
    await dialog().getByRole('button', { name: 'Disable' }).click()
    await dialog().getByRole('alert').waitFor()
    await page.locator('td').getByText(`gone@${domain}`).first().waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
  })
})

describe('without a network', () => {
  test('a change says so, and does not happen by itself when somebody has given it up', async () => {
    await go('/settings')
    await press(page, 'Create a key')
    await dialog().getByLabel('Name').fill('given up')
    await page.context().setOffline(true)
    await dialog().getByRole('button', { name: 'Create' }).click()
    await dialog().getByRole('alert').getByText('cannot be reached').waitFor()
    expect(await dialog().getByLabel('Name').inputValue()).toBe('given up')
    await page.keyboard.press('Escape')
    await page.context().setOffline(false)
    await page.reload()
    await page.getByRole('cell', { name: 'twice', exact: true }).waitFor()
    expect(await keysNamed('given up')).toBe(0)
  })

  test('a page says so, and comes by itself afterwards', async () => {
    await go('/upgrade')
    await page.getByRole('link', { name: 'Mailboxes' }).click()
    await heading(page, 'Mailboxes')
    // Going near it brings the page, and none of its data.
    const brought = page.waitForResponse('**/assets/workspace-*')
    await page.getByRole('link', { name: 'General' }).hover()
    await (await brought).finished()
    await page.context().setOffline(true)
    await page.getByRole('link', { name: 'General' }).click()
    await page.getByRole('alert').getByText('cannot be reached').waitFor()
    await page.context().setOffline(false)
    await page.getByLabel('Name').waitFor()
  })

  test('a page that was not near yet does not end at the one of the browser, and comes by itself, too', async () => {
    await go('/upgrade')
    await heading(page, 'Another plan')
    await page.context().setOffline(true)
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('status').getByText('may be old').waitFor()
    await page.getByText('Loading…').waitFor({ state: 'attached' })
    await page.context().setOffline(false)
    await heading(page, 'Audit log')
  })
})

test('a page that could not begin begins where somebody tries again', async () => {
  const person = await page.context().newPage()
  await person.route('**/api/v1/session', (route) => route.fulfill({ status: 502, body: 'Bad Gateway' }))
  await person.goto(`${visit.origin}/messages`)
  const again = person.getByRole('button', { name: 'Try again' })
  await again.waitFor()
  await person.unroute('**/api/v1/session')
  await again.click()
  await heading(person, 'Messages')
  await person.close()
})

test('what is shown says that it may be old while the service is silent, and no longer when it answers', async () => {
  await go('/refused')
  await page.getByText('Nothing was refused.').waitFor()
  const note = page.getByRole('status').getByText('may be old')
  await page.route('**/api/**', (route) => route.abort())
  await note.waitFor({ timeout: 45_000 })
  await page.unroute('**/api/**')
  await note.waitFor({ state: 'detached', timeout: 45_000 })
  // So it does where the service answers, and cannot tell.
  const answer = { status: 500, json: { error: 'Something is broken here.', code: 'internal_error' } }
  await page.route('**/api/v1/refused-submissions*', (route) => route.fulfill(answer))
  await page.getByRole('main').getByText('Something is broken here.').waitFor({ timeout: 45_000 })
  await note.waitFor()
  await page.unroute('**/api/v1/refused-submissions*')
  await note.waitFor({ state: 'detached', timeout: 45_000 })
})

test('a download that fails says why', async () => {
  await go('/suppressions')
  await page.route('**/suppressions.csv', (route) => route.abort())
  await press(page, 'Export')
  await page.getByRole('alert').getByText('cannot be reached').waitFor()
  await page.unroute('**/suppressions.csv')
})

describe('the stream of changes', () => {
  const hide = (person: Page, state: 'hidden' | 'visible') =>
    person.evaluate(
      `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
    )

  test(
    'is ended where nobody looks: tabs share six connections, and the seventh would wait for ever',
    { timeout: 270_000 },
    async () => {
      const tabs: Page[] = []
      for (let number = 1; number <= 7; number++) {
        const tab = await page.context().newPage()
        tabs.push(tab)
        await tab.goto(`${visit.origin}/messages`)
        await tab.getByText('No message yet.').waitFor()
        await hide(tab, 'hidden')
      }
      const id = await shop.accepted({ recipient: 'ann@example.com', subject: 'Meanwhile' })
      // Whoever looks again sees what happened meanwhile, and hears the rest.
      const [first] = tabs
      const heard = first?.waitForRequest('**/api/v1/live?*')
      await hide(first as Page, 'visible')
      await heard
      await first?.getByText('Meanwhile').waitFor()
      await shop.settled(id)
      await Promise.all(tabs.map((tab) => tab.close()))
    },
  )

  test('misses nothing that changes between the first reading of a page and its own beginning', async () => {
    // In a browser of their own: whose clock stands still, stands still in all its pages.
    const person = await visit.signedIn(await visit.makeLogin('dora@people.example', shop.id, 'viewer'))
    await person.clock.install()
    const begins = Promise.withResolvers<void>()
    const ready = { contentType: 'text/event-stream', body: 'event: ready\ndata: {}\n\n' }
    await person.route('**/api/v1/live?*', (route) => begins.promise.then(() => route.fulfill(ready)), { times: 1 })
    await person.goto(`${visit.origin}/messages`)
    await person.getByText('Meanwhile').waitFor()
    // It says no more, and is not asked again; nor does the page ask by the clock, which goes on by less than a second.
    await person.route('**/api/v1/live?*', () => undefined)
    await person.clock.pauseAt(Date.now() + 1_000)
    await shop.settled(await shop.accepted({ recipient: 'before@example.com', subject: 'Before it begins' }))
    begins.resolve()
    const told = person.getByText('Before it begins')
    for (let step = 0; step < 80 && !(await told.isVisible()); step++) await person.clock.runFor(10)
    expect(await told.isVisible()).toBe(true)
    await person.context().close()
  })

  test('is asked for again after a refusal, as a proxy says it while the service starts anew', async () => {
    const person = await page.context().newPage()
    await person.clock.install()
    await person.route('**/api/v1/live?*', (route) => route.fulfill({ status: 502, body: 'Bad Gateway' }))
    const refused = person.waitForResponse('**/api/v1/live?*')
    await person.goto(`${visit.origin}/messages`)
    await refused
    await person.unroute('**/api/v1/live?*')
    await person.getByText('Meanwhile').waitFor()
    const heard = person.waitForRequest('**/api/v1/live?*')
    await person.clock.fastForward(31_000)
    await heard
    await person.close()
  })
})

describe('with the keyboard alone', () => {
  const active = () => page.evaluate<string>('document.activeElement.textContent')

  test('another page begins at its heading', async () => {
    await go('/messages')
    await page.getByRole('link', { name: 'ann@example.com' }).focus()
    await page.keyboard.press('Enter')
    await heading(page, 'Meanwhile')
    await soon(active).toBe('Meanwhile')
    await page.getByRole('link', { name: 'Domains' }).focus()
    await page.keyboard.press('Enter')
    await soon(active).toBe('Domains')
  })

  test('a button keeps the focus while it works', async () => {
    await page.getByRole('link', { name: /^shop/ }).click()
    const check = page.getByRole('button', { name: 'Check now' })
    await check.focus()
    // An answer that comes at once would be over before anybody looks.
    let answer: () => void = () => undefined
    const asked = new Promise<void>((resolve) => (answer = resolve))
    await page.route('**/check', (route) => asked.then(() => route.continue()))
    await page.keyboard.press('Enter')
    await soon(() => check.getAttribute('aria-busy')).toBe('true')
    expect(await active()).toBe('Check now')
    answer()
    await soon(() => check.getAttribute('aria-busy')).toBe('false')
    expect(await active()).toBe('Check now')
    await page.unroute('**/check')
  })

  test('days are typed into the filter', async () => {
    await go('/messages')
    await page.getByLabel('From', { exact: true }).focus()
    for (const digit of '11112025') await page.keyboard.press(digit)
    await soon(async () => new URL(page.url()).searchParams.get('from')).toBe('2025-11-11')
    expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe('2025-11-11')
    await page.goBack()
    await soon(() => page.getByLabel('From', { exact: true }).inputValue()).toBe('')
    // What no message can be of is as if it were not there.
    await go('/messages?from=0002-02-21')
    await page.getByText('Meanwhile').waitFor()
  })
})

test('on a phone the menu closes on the page that one is on already', async () => {
  await page.setViewportSize({ width: 360, height: 740 })
  await go('/messages?text=Meanwhile')
  await press(page, 'Open the menu')
  await page.getByRole('link', { name: 'Messages', exact: true }).click()
  await page.getByRole('button', { name: 'Open the menu' }).waitFor()
  await page.setViewportSize({ width: 1280, height: 900 })
})

test('an id that is searched for leads to its message', async () => {
  await go('/messages')
  await page.getByRole('link', { name: 'ann@example.com' }).click()
  await heading(page, 'Meanwhile')
  const id = new URL(page.url()).pathname.split('/').at(-1) ?? ''
  await go('/messages')
  await page.getByLabel('Search').fill(` ${id} `)
  await page.keyboard.press('Enter')
  await heading(page, 'Meanwhile')
})

test('the log of another workspace is never left under the name of this one', { timeout: 180_000 }, async () => {
  const bakery = await visit.posthorn.workspace({ name: 'Bakery' })
  const person = await visit.browser.person()
  const login = await visit.makeLogin('bob@people.example', shop.id, 'owner')
  await visit.posthorn.cli('user', 'create', '--email', login.email, '--workspace', bakery.id, '--role', 'owner')
  await person.route('**/api/v1/live?*', (route) => route.fulfill({ status: 429 }))
  await signIn(person, visit.origin, login)
  await heading(person, 'Overview')
  const choose = async (workspace: string) => {
    await person.getByRole('button', { name: 'Change the workspace' }).click()
    await person.getByRole('menuitem', { name: workspace, exact: true }).click()
  }
  await choose('Shop')
  await person.getByRole('link', { name: 'Audit log' }).click()
  // A key that was made here.
  const here = person.getByText('name: twice')
  await here.waitFor()
  await choose('Bakery')
  await here.waitFor({ state: 'detached' })
  await person.getByRole('cell', { name: 'key.created' }).waitFor()
  // Nor where somebody is taken out of the one that they look at.
  await choose('Shop')
  await here.waitFor()
  const answered = Promise.withResolvers<void>()
  await person.route('**/api/v1/audit*', (route) => answered.promise.then(() => route.continue()))
  await visit.posthorn.query(
    'delete from members where workspace_id = $1 and user_id = (select id from users where email = $2)',
    [shop.id, login.email],
  )
  await person.evaluate(`window.dispatchEvent(new Event('visibilitychange'))`)
  await person.getByRole('complementary').getByText('Bakery', { exact: true }).waitFor()
  expect(await here.count()).toBe(0)
  answered.resolve()
  await person.getByRole('cell', { name: 'key.created' }).waitFor()
})

describe('a long list', () => {
  const many = 10_400

  test('is looked through to its end before a search says that nothing was found', async () => {
    await visit.posthorn.query(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
       select $1, (substr(uuid_floor(now())::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, $2, 'rest', 'queued', 1, 'a@b.co', 'c@d.co', 'c@d.co',
              case i when 3 then 'needle' else 'hay' end, 'node', now() from generate_series(1, ${many}) i`,
      [shop.id, shop.mailboxId],
    )
    const next = '**/api/v1/messages?*cursor=*'
    const read = Promise.withResolvers<void>()
    await page.route(next, (route) => read.promise.then(() => route.continue()))
    await go('/messages?text=needle')
    await page.getByText(/^Nothing so far, back to \d.*20\d\d.* With an address or days it is quicker\.$/).waitFor()
    expect(await inspect(page, 'looking-further-back')).toEqual([])
    read.resolve()
    await page.getByText('needle').waitFor()
    await go('/messages?text=nobody%20wrote%20this')
    await page.getByText('Nothing was found.').waitFor()
    expect(await page.getByRole('button', { name: 'Looking' }).count()).toBe(0)
    await page.unroute(next)
  })

  test('is not read again page for page at every change, and says why the next page does not come', async () => {
    await go('/messages')
    const rows = () => page.locator('main tbody tr').count()
    await soon(rows).toBe(50)
    await press(page, 'Show more')
    await soon(rows).toBe(100)
    const asked: string[] = []
    page.on('request', (request) => request.url().includes('/api/v1/messages?') && asked.push(request.url()))
    await shop.settled(await shop.accepted({ recipient: 'ann@example.com' }))
    await page.route('**/api/v1/messages?*', (route) => route.abort())
    await press(page, 'Show more')
    await page.getByRole('alert').getByText('cannot be reached').waitFor()
    expect(asked.filter((url) => !url.includes('cursor='))).toEqual([])
    expect(await rows()).toBe(100)
    // But says so, with the way to the newest.
    await page.unroute('**/api/v1/messages?*')
    await page.getByText('does not follow by itself').waitFor()
    await press(page, 'Read it again')
    await page.getByRole('main').getByRole('link', { name: 'ann@example.com' }).first().waitFor()
  })

  test('that was looked through far back is not read again because somebody comes back to it: the log of webhooks, too', async () => {
    const person = await visit.signedIn(await visit.makeLogin('carol@people.example', shop.id, 'owner'))
    const asked: string[] = []
    await person.route('**/api/v1/webhook/events?*', (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get('after') ?? 0)
      asked.push(String(after))
      return route.fulfill({ json: { events: [], ...(after < 5 && { next: String(after + 1) }) } })
    })
    await person.clock.install()
    await person.goto(`${visit.origin}/webhook`)
    await person.getByText('No event yet.').waitFor()
    expect(asked.slice(-6)).toEqual(['0', '1', '2', '3', '4', '5'])
    const before = asked.length
    // By now what was read counts as old.
    await person.clock.fastForward(10_000)
    const session = person.waitForResponse('**/api/v1/session')
    await person.evaluate(`window.dispatchEvent(new Event('visibilitychange'))`)
    await session
    expect(asked.length).toBe(before)
  })
})
