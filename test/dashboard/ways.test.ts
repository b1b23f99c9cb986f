// Ways through the dashboard that somebody goes who does not know it: back, beside a dialog, into another workspace or none, with a phone, with
// words that are too long. None ends where there is no way on, and none loses what was typed or shown once.
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { makeSmtpLogin, submitterOf } from '../world/submitter.ts'
import { heading, press, signIn, startVisit, type Login, type Visit } from './visit.ts'

let visit: Visit
let shop: JourneyWorkspace
let bakery: JourneyWorkspace
let login: Login
let page: Page
const go = (path: string, person = page) => person.goto(`${visit.origin}${path}`)
const dialog = () => page.getByRole('dialog')
const polled = { interval: 20, timeout: 15_000 }
const soon = (read: () => Promise<unknown>) => expect.poll(read, polled)

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  bakery = await visit.posthorn.workspace({ name: 'Bakery' })
  login = await visit.makeLogin('ann@people.example', shop.id, 'owner')
  await visit.posthorn.cli('user', 'create', '--email', login.email, '--workspace', bakery.id, '--role', 'owner')
  page = await visit.browser.person()
  await go('/sign-in')
  await page.evaluate(`localStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
}, 360_000)

const choose = async (workspace: string) => {
  await page.getByRole('button', { name: 'Change the workspace' }).click()
  await page.getByRole('menuitem', { name: workspace, exact: true }).click()
}

describe('an address', () => {
  test('leads through the sign-in to its page, and back past it', async () => {
    await go('/forgot-password')
    await go('/messages?status=failed&text=receipt')
    await heading(page, 'Sign in')
    await page.getByLabel('E-mail').fill(login.email)
    await page.getByLabel('Password').fill(login.password)
    await press(page, 'Sign in')
    await heading(page, 'Messages')
    expect(await page.getByLabel('Search').inputValue()).toBe('receipt')
    await page.goBack()
    await heading(page, 'Forgot the password?')
    await go('/messages')
    await heading(page, 'Messages')
  })

  test('in a mail about one workspace leads there, through the sign-in too, whichever was looked at last', async () => {
    const person = await visit.browser.person()
    const shown = () => person.getByRole('button', { name: 'Change the workspace' }).textContent()
    await person.goto(`${visit.origin}/webhook?workspace=${bakery.id}`)
    await heading(person, 'Sign in')
    await person.evaluate(`localStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
    await person.getByLabel('E-mail').fill(login.email)
    await person.getByLabel('Password').fill(login.password)
    await press(person, 'Sign in')
    await heading(person, 'Webhook')
    expect(await shown()).toContain('Bakery')

    await person.goto(`${visit.origin}/domains?workspace=${shop.id}`)
    await heading(person, 'Domains')
    expect(await shown()).toContain('Shop')
    // Once: who then chooses another one stays there.
    expect(new URL(person.url()).search).toBe('')
    await person.getByRole('button', { name: 'Change the workspace' }).click()
    await person.getByRole('menuitem', { name: 'Bakery', exact: true }).click()
    await person.reload()
    await heading(person, 'Domains')
    expect(await shown()).toContain('Bakery')

    // Somebody else's: what was looked at stays.
    await person.goto(`${visit.origin}/domains?workspace=0199f1c2-0000-7000-8000-00000000000c`)
    await heading(person, 'Domains')
    expect(await shown()).toContain('Bakery')
  })

  describe('is kept with all of it where the session ends', () => {
    const lookAtMessages = async (name: string) => {
      const person = await visit.browser.person()
      const late = await visit.makeLogin(`${name}@people.example`, shop.id, 'viewer')
      await signIn(person, visit.origin, late)
      await heading(person, 'Overview')
      const end = () =>
        visit.posthorn.query(`delete from sessions s using users u where u.id = s.user_id and u.email = $1`, [
          late.email,
        ])
      const look = async () => {
        await person.goto(`${visit.origin}/messages?text=receipt`)
        await person.getByText('Nothing was found.').waitFor()
      }
      const ledTo = async () => {
        await heading(person, 'Sign in')
        // Whoever had filled something in hears why they stand here, and that it was not saved.
        await person.getByRole('status').getByText('Your session has ended').waitFor()
        return new URL(person.url()).searchParams.get('to')
      }
      return { person, late, look, end, ledTo }
    }

    test('and nothing is asked for: within a minute', async () => {
      const { person, late, look, end, ledTo } = await lookAtMessages('late')
      await person.clock.install()
      await look()
      await end()
      await person.clock.fastForward(61_000)
      expect(await ledTo()).toBe('/messages?text=receipt')
      await person.getByLabel('E-mail').fill(late.email)
      await person.getByLabel('Password').fill(late.password)
      await press(person, 'Sign in')
      await heading(person, 'Messages')
      expect(await person.getByLabel('Search').inputValue()).toBe('receipt')
    })

    test('and something is asked for: at once', async () => {
      const { person, look, end, ledTo } = await lookAtMessages('later')
      await look()
      await end()
      await person.getByRole('link', { name: 'Domains' }).click()
      expect(await ledTo()).toBe('/domains')
    })
  })

  test('and the field of the search say the same, whichever way one came', async () => {
    await go('/messages')
    for (const words of ['first', 'second']) {
      await page.getByLabel('Search').fill(words)
      await page.keyboard.press('Enter')
      await soon(async () => page.url()).toContain(`text=${words}`)
    }
    await page.goBack()
    await soon(() => page.getByLabel('Search').inputValue()).toBe('first')
    await page.getByRole('link', { name: 'Messages', exact: true }).click()
    await soon(() => page.getByLabel('Search').inputValue()).toBe('')
  })
})

describe('a workspace', () => {
  test('that is changed while one message is read shows the messages of the other', async () => {
    const id = await shop.accepted({ recipient: 'ann@example.com', subject: 'Of the shop' })
    await bakery.accepted({ recipient: 'bob@example.com', subject: 'Of the bakery' })
    await go(`/messages/${id}`)
    await heading(page, 'Of the shop')
    await choose('Bakery')
    await heading(page, 'Messages')
    await page.getByText('Of the bakery').waitFor()
    expect(await page.getByText('Of the shop').count()).toBe(0)
    await choose('Shop')
  })

  test('that is changed while a list shows what belongs to a mailbox of the other shows all of its own', async () => {
    await go(`/messages?mailboxId=${shop.mailboxId}`)
    await page.getByText('Of the shop').waitFor()
    await choose('Bakery')
    await page.getByText('Of the bakery').waitFor()
    expect(new URL(page.url()).search).toBe('')
    await choose('Shop')
    await go(`/webhook?messageId=${crypto.randomUUID()}&state=failed`)
    await page.getByText('No such event was found.').waitFor()
    await choose('Bakery')
    await soon(async () => new URL(page.url()).search).toBe('?state=failed')
    await choose('Shop')
  })

  test('without the domain or the mail that an address names offers nothing to do with it', async () => {
    for (const path of ['domains', 'sandbox']) {
      await go(`/${path}/${crypto.randomUUID()}`)
      await page.getByRole('alert').waitFor()
      expect(await page.getByRole('button', { name: /Check|DKIM|Remove/ }).count()).toBe(0)
      expect(await page.getByRole('link', { name: 'Download' }).count()).toBe(0)
    }
  })

  test('is asked for what an address names, and for nothing that stands elsewhere: a link is anybody’s', async () => {
    const asked: string[] = []
    const hear = (request: { url(): string }) => void asked.push(new URL(request.url()).pathname)
    page.on('request', hear)
    for (const path of ['domains', 'sandbox', 'messages']) {
      await go(`/${path}/..%2Fmailboxes%2F${shop.mailboxId}`)
      await page.getByRole('alert').waitFor()
    }
    page.off('request', hear)
    expect(asked.filter((path) => path.startsWith('/api/v1/mailboxes/'))).toEqual([])
  })

  test('in which somebody may not do what an address asks for says so once, and offers nothing that would be refused', async () => {
    const person = await visit.signedIn(await visit.makeLogin('vito@people.example', shop.id, 'viewer'))
    for (const path of ['workspaces', 'plans', 'queue', 'feedback', 'health']) {
      await go(`/operator/${path}`, person)
      await person.getByText('This page is for the operators of this installation.').waitFor()
      expect(await person.getByRole('main').getByRole('button').count()).toBe(0)
      expect(await person.getByRole('alert').count()).toBe(0)
    }
    for (const path of ['/audit', `/domains/${crypto.randomUUID()}`]) {
      await go(path, person)
      await person.getByRole('alert').waitFor()
      expect(await person.getByRole('button', { name: 'Try again' }).count()).toBe(0)
    }
  })

  test('that somebody does not have is said so, with the way on', async () => {
    const person = await visit.browser.person()
    const { password } = await visit.posthorn.cli<Login>('user', 'create', '--email', 'nobody@people.example')
    await signIn(person, visit.origin, { email: 'nobody@people.example', password })
    await person.getByText('You are in no workspace.').waitFor()
    await person.goto(`${visit.origin}/domains`)
    await person.getByText('to invite nobody@people.example').waitFor()
    expect(await person.getByRole('alert').count()).toBe(0)
    await person.goto(`${visit.origin}/account`)
    await heading(person, 'Account')
  })

  test('offers only what the role may read', async () => {
    const person = await visit.signedIn(await visit.makeLogin('vera@people.example', shop.id, 'viewer'))
    expect(await person.getByRole('link', { name: 'Audit log' }).count()).toBe(0)
    await page.getByRole('link', { name: 'Audit log' }).waitFor()
  })

  test('is found by the operator among more than a page of them', async () => {
    await visit.posthorn.query(
      `insert into workspaces (id, name, plan) select gen_random_uuid(), 'Many ' || n, 'unlimited' from generate_series(1, 60) n`,
      [],
    )
    const operator = await visit.signedIn(visit.owner)
    await operator.goto(`${visit.origin}/operator/workspaces`)
    const rows = () => operator.locator('main tbody tr').count()
    await expect.poll(rows, polled).toBe(50)
    await press(operator, 'Show more')
    await expect.poll(rows, polled).toBeGreaterThan(60)
    await operator.getByLabel('Search').fill('Bakery')
    await expect.poll(rows, polled).toBe(1)
    // A new one may send.
    await press(operator, 'Make a workspace')
    const plan = operator.getByRole('dialog').getByLabel('Plan')
    await expect.poll(() => plan.locator('option').count(), polled).toBeGreaterThan(1)
    expect(await plan.inputValue()).toBe('unlimited')
  })

  test('is renamed by the operator, who sees what its members call it; one that is being removed is not', async () => {
    const operator = await visit.signedIn(visit.owner)
    await operator.goto(`${visit.origin}/operator/workspaces`)
    await operator.getByLabel('Search').fill('Bakery')
    await visit.posthorn.query(`update workspaces set own_name = 'Our bakery' where name = 'Bakery'`, [])
    await press(operator, 'Change Bakery')
    await operator.getByRole('dialog').getByLabel('Name').fill('Bakery in Bern')
    await operator.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
    await operator.getByRole('cell', { name: 'Bakery in Bern its members say “Our bakery”' }).waitFor()
    // Blocking one loses its waiting mail: that is said, and agreed to.
    await press(operator, 'Change Bakery in Bern')
    await operator.getByLabel('State').selectOption('blocked')
    const agreed = operator.getByLabel('What it has accepted and not sent yet fails for good')
    const save = operator.getByRole('dialog').getByRole('button', { name: 'Save' })
    await save.click()
    expect(await agreed.evaluate((box) => (box as unknown as { validity: { valid: boolean } }).validity.valid)).toBe(
      false,
    )
    await agreed.check()
    await save.click()
    await operator
      .getByRole('row', { name: /Bakery in Bern/ })
      .getByText('Blocked')
      .waitFor()
    await visit.posthorn.cli('workspace', 'set', bakery.id, '--status', 'active')
    await visit.posthorn.query(
      `update workspaces set status = 'blocked', removing_since = now() where name = 'Many 1'`,
      [],
    )
    await operator.getByLabel('Search').fill('Many 1')
    const going = operator.getByRole('row').filter({ hasText: 'Being removed' })
    await going.waitFor()
    expect(await going.getByRole('button', { name: 'Change' }).count()).toBe(0)
  })
})

describe('a dialog', () => {
  test('begins in its first field, and a press beside it takes nothing away', async () => {
    await go('/mailboxes')
    await press(page, 'Add a mailbox')
    await soon(() => page.evaluate('document.activeElement.name')).toBe('address')
    await page.keyboard.type(`new@${shop.address.split('@')[1]}`)
    await page.mouse.click(4, 4)
    await dialog().getByLabel('Name').fill('New')
    await dialog().getByRole('button', { name: 'Add' }).click()
    await page.getByRole('cell', { name: /^new@/ }).waitFor()
  })

  test('does not begin with the mistake of the last time', async () => {
    await press(page, 'Add a mailbox')
    await dialog().getByLabel('Address').fill('new@not-ours.example')
    await dialog().getByRole('button', { name: 'Add' }).click()
    await dialog().getByRole('alert').waitFor()
    await page.keyboard.press('Escape')
    await press(page, 'Add a mailbox')
    expect(await dialog().getByRole('alert').count()).toBe(0)
    await page.keyboard.press('Escape')
  })

  test('with a secret stays until it is closed, and gives it to be pasted where browsers have no clipboard', async () => {
    // As over plain HTTP.
    await page.addInitScript(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    await go('/settings')
    await press(page, 'Create a key')
    await dialog().getByLabel('Name').fill('k'.repeat(200))
    await dialog().getByRole('button', { name: 'Create', exact: true }).click()
    const key = (await dialog().locator('code').textContent()) ?? ''
    await page.mouse.click(4, 4)
    await dialog().getByRole('button', { name: 'Copy' }).click()
    await dialog().getByText('Copied').waitFor({ state: 'attached' })
    await press(page, 'I have it')
    // Its name stays in its own cell.
    const [name, next] = await page.getByRole('row', { name: /kkk/ }).getByRole('cell').all()
    const widest = await name
      ?.locator('span')
      .evaluate((cell) => (cell as unknown as { scrollWidth: number }).scrollWidth)
    expect(widest).toBeLessThanOrEqual((await name?.boundingBox())?.width ?? 0)
    expect(await next?.textContent()).toMatch(/^ph_/)
    await go('/messages')
    await page.getByLabel('Search').focus()
    await page.keyboard.press('Control+v')
    expect(await page.getByLabel('Search').inputValue()).toBe(key)
  })
})

test('what a browser did not let us copy says so: a secret would be gone with its dialog', async () => {
  const person = await visit.browser.person()
  await person.addInitScript(
    `Object.defineProperty(navigator, 'clipboard', { value: undefined }); document.execCommand = () => true`,
  )
  await signIn(person, visit.origin, await visit.makeLogin('nocopy@people.example', shop.id, 'developer'))
  await heading(person, 'Overview')
  await person.goto(`${visit.origin}/settings`)
  await press(person, 'Create a credential')
  const box = person.getByRole('dialog')
  await box.getByLabel('Name').fill('no clipboard')
  await box.getByRole('button', { name: 'Create', exact: true }).click()
  await box.getByRole('button', { name: /^Copy/ }).first().click()
  await box.getByText('Not copied').waitFor()
  expect(await box.getByText('Copied', { exact: true }).count()).toBe(0)
  await person.context().close()
})

test('a role is changed after a question, because an arrow key is enough to choose one', async () => {
  await visit.makeLogin('rob@people.example', shop.id, 'viewer')
  await go('/members')
  const role = page.getByLabel('Role of rob@people.example')
  await role.focus()
  await page.keyboard.press('ArrowUp')
  await dialog().getByText('rob@people.example is Viewer now.').waitFor()
  await page.keyboard.press('Escape')
  expect(await role.inputValue()).toBe('viewer')
  await role.selectOption('developer')
  await dialog().getByRole('button', { name: 'Change' }).click()
  await soon(() => role.inputValue()).toBe('developer')
  // The last owner stays, and the question says why.
  await page.getByLabel(`Role of ${login.email}`).selectOption('admin')
  await dialog().getByText('That is you').waitFor()
  await dialog().getByRole('button', { name: 'Change' }).click()
  await dialog().getByRole('alert').getByText('keeps at least one owner').waitFor()
  await page.keyboard.press('Escape')
  // Only owners make, change and remove owners.
  const admin = await visit.signedIn(await visit.makeLogin('adam@people.example', shop.id, 'admin'))
  await admin.goto(`${visit.origin}/members`)
  await admin.getByRole('button', { name: 'Remove rob@people.example' }).waitFor()
  expect(await admin.getByLabel('Role of rob@people.example').locator('option').allInnerTexts()).not.toContain('Owner')
  expect(await admin.getByLabel(`Role of ${login.email}`).count()).toBe(0)
  expect(await admin.getByRole('button', { name: `Remove ${login.email}` }).count()).toBe(0)
  await press(admin, 'Invite')
  const roles = admin.getByRole('dialog').getByLabel('Role').locator('option')
  expect(await roles.allInnerTexts()).toEqual(['Admin', 'Developer', 'Viewer'])
})

test('who is removed leaves keys behind, and the question says so, and which', async () => {
  const eve = await visit.makeLogin('eve@people.example', shop.id, 'developer')
  const person = await visit.signedIn(eve)
  await person.evaluate(() =>
    fetch('/api/v1/keys', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-posthorn-csrf': '1' },
      body: JSON.stringify({ name: 'Key of Eve', scopes: ['mail.send'] }),
    }),
  )
  await go('/members')
  await press(page, 'Remove eve@people.example')
  await dialog().getByText('SMTP credentials stay good').waitFor()
  await dialog().getByText('Key of Eve').waitFor()
  await page.keyboard.press('Escape')
})

test('a workspace gets another name, which the menu says at once, and drops what it was told to drop', async () => {
  await go('/workspace')
  const menu = page.getByRole('button', { name: 'Change the workspace' })
  const name = page.getByLabel('Name')
  await name.fill('Other Shop')
  await page.getByLabel('Keep texts and attachments').uncheck()
  await press(page, 'Save')
  await page.getByRole('status').getByText('Saved.').waitFor()
  await menu.getByText('Other Shop').waitFor()
  // Another person has renamed it since: who saves the rest takes nothing back.
  await visit.posthorn.query(`update workspaces set own_name = 'Their Shop' where id = $1`, [shop.id])
  await page.getByLabel('Keep texts and attachments').check()
  await press(page, 'Save')
  await menu.getByText('Their Shop').waitFor()
  await name.fill('Other Shop')
  await page.getByLabel('Keep texts and attachments').uncheck()
  await press(page, 'Save')
  await menu.getByText('Other Shop').waitFor()
  await page.reload()
  expect(await name.inputValue()).toBe('Other Shop')
  expect(await page.getByLabel('Keep texts and attachments').isChecked()).toBe(false)
  await name.fill(bakery.id)
  await press(page, 'Save')
  await page.getByRole('alert').getByText('A workspace cannot be named like an id.').waitFor()
  // Another one's name is no less free than any other.
  await name.fill('Posthorn')
  await press(page, 'Save')
  await menu.getByText('Posthorn', { exact: true }).waitFor()
  await name.fill('Shop')
  await page.getByLabel('Keep texts and attachments').check()
  await press(page, 'Save')
  await menu.getByText('Shop', { exact: true }).waitFor()
})

test('whose plan does not include sending is told whom to ask for another', async () => {
  await visit.posthorn.cli('workspace', 'set', bakery.id, '--plan', 'free')
  await page.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(bakery.id)})`)
  await go('/')
  await page.getByRole('link', { name: 'Change it' }).click()
  await heading(page, 'Another plan')
  await page.getByText('Plans are given by whoever runs this Posthorn').waitFor()
  await page.getByText(bakery.id).waitFor()
  await visit.posthorn.cli('workspace', 'set', bakery.id, '--plan', 'unlimited')
  await page.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
})

describe('words that are too long, or none, or turned around', () => {
  const long = `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.example`
  const phone = { width: 390, height: 844 }

  test('fit the screen, and all of them can be read', async () => {
    const subject = 'A very long subject '.repeat(45).trim()
    const metadata = { From: 'mallory@example.com', ['n'.repeat(40)]: 'a value of some words' }
    const id = await shop.accepted({ recipient: long, subject, metadata })
    await go(`/messages/${id}`)
    await heading(page, subject)
    const details = page.getByRole('region', { name: 'Details' })
    expect(await details.locator('dd').first().textContent()).toBe(subject)
    expect(await details.getByText('mallory@example.com').count()).toBe(0)
    await page.getByRole('region', { name: 'Metadata' }).getByText('mallory@example.com').waitFor()
    for (const size of [phone, { width: 1280, height: 900 }]) {
      await page.setViewportSize(size)
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(size.width)
      // A value keeps its lines however long its name is.
      const value = page.getByRole('region', { name: 'Metadata' }).getByText('a value of some words')
      expect((await value.boundingBox())?.width).toBeGreaterThan(120)
    }
    // A question names in full what it is about, and can be closed.
    await visit.posthorn.cli('suppression', 'add', shop.id, long)
    await page.setViewportSize(phone)
    await go('/suppressions')
    await press(page, `Remove ${long}`)
    expect(await dialog().evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0)
    expect((await dialog().getByRole('button', { name: 'Close' }).boundingBox())?.width).toBe(32)
    await dialog().getByRole('button', { name: 'Cancel' }).click()
    await dialog().waitFor({ state: 'detached' })
    await page.setViewportSize({ width: 1280, height: 900 })
    await visit.posthorn.cli('suppression', 'remove', shop.id, long)
  })

  test('a mail without a subject has a name, and a file is called as it ends', async () => {
    const { response } = await submitterOf(visit.posthorn, await makeSmtpLogin(visit.posthorn, shop)).sendMail({
      from: shop.address,
      to: 'ann@example.com',
      text: 'No subject.',
      attachments: [{ filename: 'invoice\u202Efdp.exe', content: 'x' }],
    })
    await shop.settled(/Accepted as (\S+)/.exec(response)?.[1] ?? '')
    await go('/messages')
    await page.getByText('(no subject)').waitFor()
    await page.getByRole('link', { name: 'ann@example.com' }).first().click()
    await heading(page, '(no subject)')
    await page.getByRole('list', { name: 'Files' }).getByText('invoice\uFFFDfdp.exe').waitFor()
    await go('/sandbox')
    await page.getByRole('link', { name: '(no subject)' }).click()
    await page.getByRole('list', { name: 'Files' }).getByText('invoice\uFFFDfdp.exe').waitFor()
  })

  test('a story of another day says which', async () => {
    const id = await shop.accepted({ recipient: 'ann@example.com' })
    await shop.settled(id)
    await go(`/messages/${id}`)
    const times = page.getByRole('region', { name: 'What happened' }).locator('time')
    expect(await times.first().textContent()).toMatch(/^\d\d:\d\d:\d\d\.\d{3}$/)
    // By the service's clock: that of a browser may be wrong by days (browsers.test.ts).
    await visit.posthorn.query(
      `update events set occurred_at = occurred_at - interval '3 days' where message_id = $1`,
      [id],
    )
    await page.reload()
    await soon(() => times.first().textContent()).toMatch(/^\d{1,2} \p{L}+,? \d\d:\d\d:\d\d\.\d{3}$/u)
    // With its zone, once.
    await page
      .getByRole('region', { name: 'Details' })
      .getByText(/\d\d:\d\d:\d\d [A-Z]{3}/)
      .waitFor()
  })

  test('a story tells a refusal from what was given up here', async () => {
    const id = await shop.accepted({ recipient: 'policy@simulator.posthorn.test' })
    await shop.settled(id)
    const own = await visit.signedIn(login)
    await own.evaluate(`sessionStorage.setItem('workspace', ${JSON.stringify(shop.id)})`)
    await own.goto(`${visit.origin}/messages/${id}`)
    await own.getByRole('heading', { name: 'Refused for good' }).waitFor()
    await visit.posthorn.query(
      `update events set facts = jsonb_set(facts::jsonb, '{reason}', '"eod_4xx_late"') where message_id = $1 and type = 'message.failed'`,
      [id],
    )
    await own.reload()
    await own.getByRole('heading', { name: 'Given up' }).waitFor()
    await own.getByText('when the mail had been told as unknown').waitFor()
  })

  test('the menu of a phone keeps the focus from what it covers', async () => {
    const person = await visit.browser.person()
    await person.setViewportSize(phone)
    await signIn(person, visit.origin, login)
    await heading(person, 'Overview')
    // Where the menu is closed, whoever is in several workspaces still sees in which.
    const banner = person.getByRole('banner')
    expect(await banner.getByRole('paragraph').innerText()).toMatch(/^(?:Shop|Our bakery|Bakery)$/)
    await press(person, 'Open the menu')
    await person.getByRole('button', { name: /^Theme/ }).focus()
    await person.keyboard.press('Tab')
    expect(await person.evaluate(`document.activeElement.closest('main')`)).toBeNull()
    await person.keyboard.press('Escape')
    await person
      .getByRole('tab')
      .or(person.getByRole('button', { name: '30 days' }))
      .click()
    // What opens out of it lies above it, fits the screen, and shows what it led to. However many workspaces there are, and whatever they are called.
    await visit.posthorn.query(
      `insert into workspaces (id, name, status, plan) select gen_random_uuid(), repeat('W', 100) || i, 'active', 'free' from generate_series(1, 60) i`,
      [],
    )
    await visit.posthorn.query(
      `insert into members (workspace_id, user_id, role) select w.id, u.id, 'viewer' from workspaces w, users u where w.name like 'WWW%' and u.email = $1`,
      [login.email],
    )
    await person.reload()
    await press(person, 'Open the menu')
    await person.getByRole('button', { name: 'Change the workspace' }).click()
    const last = person.getByRole('menuitem').last()
    expect((await person.getByRole('menu').boundingBox())?.width).toBeLessThanOrEqual(phone.width)
    await last.scrollIntoViewIfNeeded()
    await last.click()
    await person.getByText('No message yet.').waitFor()
    const [brand, name] = [banner.getByRole('link'), banner.getByText(/^WWW/)]
    const [ours, theirs] = [await brand.boundingBox(), await name.boundingBox()]
    expect((ours?.x ?? 0) + (ours?.width ?? 0)).toBeLessThanOrEqual(theirs?.x ?? 0)
    expect(await brand.evaluate((link) => link.scrollWidth - link.clientWidth)).toBe(0)
    await press(person, 'Open the menu')
    await person.getByRole('button', { name: login.email }).click()
    await person.getByRole('menuitem', { name: 'Account' }).click()
    await heading(person, 'Account')
    await person.getByRole('button', { name: 'Save' }).click({ trial: true })
    await visit.posthorn.query(
      `delete from members where workspace_id in (select id from workspaces where name like 'WWW%')`,
      [],
    )
    await visit.posthorn.query(`delete from workspaces where name like 'WWW%'`, [])
  })
})

describe('an account', () => {
  let own: Page
  beforeAll(async () => {
    own = await visit.signedIn(login)
    await own.goto(`${visit.origin}/account`)
  })

  test('says that a name was saved, where one is signed in, and which password is too weak', async () => {
    await own.getByLabel('Name').fill('Ann')
    await press(own, 'Save')
    await own.getByRole('status').getByText('Saved.').waitFor()
    await own
      .getByRole('row', { name: /This one/ })
      .getByText('Chrome on Linux')
      .waitFor()
    await own.getByLabel('Present password').fill(login.password)
    await own.getByLabel('New password').fill('aaaaaaaaaaaa')
    await press(own, 'Change')
    await own.getByText('too easy to guess').waitFor()
    expect(await own.getByLabel('New password').getAttribute('aria-invalid')).toBe('true')
    expect(await own.getByLabel('Present password').getAttribute('aria-invalid')).toBe('false')
  })

  test('is not left where the service cannot be reached, and says so', async () => {
    await own.route('**/api/v1/session', (route) => route.abort())
    await press(own, 'Ann')
    await own.getByRole('menuitem', { name: 'Sign out' }).click()
    await own.getByRole('alert').getByText('Posthorn cannot be reached').waitFor()
    await own.unroute('**/api/v1/session')
    await press(own, 'Ann')
    await own.getByRole('menuitem', { name: 'Sign out' }).click()
    await heading(own, 'Sign in')
  })

  test('is invited by a link whose token no address tells to a server, and comes back to it from the sign-in', async () => {
    const { password } = await visit.posthorn.cli<Login>('user', 'create', '--email', 'zoe@people.example')
    const invited = await page.evaluate<number>(
      `fetch('/api/v1/invitations', {
         method: 'POST',
         headers: { 'x-posthorn-csrf': '1', 'content-type': 'application/json', 'x-posthorn-workspace': '${shop.id}' },
         body: JSON.stringify({ email: 'zoe@people.example', role: 'viewer' }),
       }).then(({ status }) => status)`,
    )
    expect(invited).toBe(201)
    const read = async () => {
      const [row] = await visit.posthorn.query<{ mail: string }>(
        `select convert_from(content, 'UTF8') mail from sandbox_mail where recipient = 'zoe@people.example'`,
      )
      return /accept-invitation#token=([\w-]+)/.exec(
        row?.mail.replaceAll('=3D', '=').replaceAll('=\r\n', '') ?? '',
      )?.[1]
    }
    await expect.poll(read, polled).toBeDefined()
    const token = (await read()) ?? ''
    const zoe = await visit.browser.person()
    const told: string[] = []
    zoe.on('request', (request) => told.push(request.url()))
    await zoe.goto(`${visit.origin}/accept-invitation#token=${token}`)
    await zoe.getByText('To Shop as viewer').waitFor()
    await zoe.reload()
    await zoe.getByRole('link', { name: 'sign in' }).click()
    await heading(zoe, 'Sign in')
    await zoe.reload()
    await zoe.getByLabel('E-mail').fill('zoe@people.example')
    await zoe.getByLabel('Password').fill(password)
    await press(zoe, 'Sign in')
    await press(zoe, 'Accept')
    await heading(zoe, 'Overview')
    expect(told.map((url) => url.replace(/#.*/, '')).filter((url) => url.includes(token))).toEqual([])
  })

  test('whose link is stale is told where there is another', async () => {
    await own.goto(`${visit.origin}/reset-password?token=stale`)
    await own.getByLabel('New password').fill('some other words')
    await press(own, 'Change it')
    await own.getByRole('alert').waitFor()
    await own.getByRole('link', { name: 'Ask for another link' }).click()
    await heading(own, 'Forgot the password?')
    await own.goto(`${visit.origin}/accept-invitation?token=stale`)
    await own.getByRole('link', { name: 'To the sign-in' }).click()
    await heading(own, 'Sign in')
    // One that lost its end on the way says so before anything is filled in.
    for (const path of ['reset-password', 'accept-invitation']) {
      await own.goto(`${visit.origin}/${path}`)
      await own.getByText('The end of this link is missing').waitFor()
      expect(await own.getByRole('textbox').count()).toBe(0)
    }
  })
})
