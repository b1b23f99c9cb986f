// What lists and charts must not leave unsaid, in a real browser over the whole binary: which day a point is of, what a number counts, what a key
// may, why somebody is suppressed.
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startWebhookReceiver, status } from '../world/webhook-receiver.ts'
import { heading, inspector, loaded, startVisit, type Login, type Visit } from './visit.ts'

const inspect = inspector('details')
const soon = { interval: 20, timeout: 15_000 }

let visit: Visit
let shop: JourneyWorkspace
let owner: Login
let page: Page
const go = (path: string, person = page) => person.goto(`${visit.origin}${path}`)
const look = (name: string, person = page) => inspect(person, name)

beforeAll(async () => {
  visit = await startVisit({ settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' } })
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  owner = await visit.makeLogin('ann@people.example', shop.id, 'owner')
  page = await visit.signedIn(owner)
}, 360_000)

describe('far in the west', () => {
  const today = () => new Date().toLocaleDateString('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })

  test('a point of the 30 days is of the day that it counts, and a total leads to the messages of its time', async () => {
    await visit.posthorn.query(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
       select $1, (substr(uuid_floor(made)::text, 1, 24) || '000000000001')::uuid, $2, 'rest', 'sent', 1, 'a@b.co', 'old@d.co', 'old@d.co', 'Old', 'node', made, made
         from (select now() - interval '40 days' as made) old`,
      [shop.id, shop.mailboxId],
    )
    await shop.accepted({ recipient: 'ann@example.com' })
    const person = await visit.signedIn(owner, 'Pacific/Pago_Pago')
    await person.getByRole('button', { name: '30 days' }).click()
    const chart = person.getByRole('slider', { name: 'A point of the chart' })
    const last = async () => {
      await chart.focus()
      await person.keyboard.press('End')
      const said = await chart.getAttribute('aria-valuetext')
      return said?.startsWith(`${today()} (UTC): Accepted 1`)
    }
    await expect.poll(last, soon).toBe(true)
    await person.getByText('Days begin and end in UTC.').waitFor()
    await person.getByText('As a table').click()
    expect(await person.getByRole('group', { name: 'Counts over time' }).innerText()).toContain(`${today()} (UTC)`)
    expect(await look('days', person)).toEqual([])

    await person.getByRole('region', { name: 'Totals' }).getByRole('link', { name: 'Accepted' }).click()
    await heading(person, 'Messages')
    const recipients = () => person.locator('main tbody tr td:first-child').allTextContents()
    await expect.poll(recipients, soon).toEqual(['ann@example.com'])
    await person.getByText(/^Accepted since /).waitFor()
    expect(await look('counted', person)).toEqual([])
    // A day that is chosen is the reader's own again, and without any they are all there.
    await person.getByLabel('From', { exact: true }).fill('')
    await expect.poll(recipients, soon).toEqual(['ann@example.com', 'old@d.co'])
  })
})

test('a key says when it ends, and one whose time is over says so', async () => {
  const args = [
    'key',
    'create',
    shop.id,
    '--name',
    'last year',
    '--scope',
    'mail.read',
    '--expires',
    '2099-01-01T00:00:00Z',
  ]
  const { id } = await visit.posthorn.cli<{ id: string }>(...args)
  await visit.posthorn.query(`update api_keys set expires_at = now() - interval '1 hour' where id = $1`, [id])
  await go('/settings')
  await page.getByRole('button', { name: 'Create a key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('campaign')
  await dialog.getByLabel('Last day').fill('2020-01-01')
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  await dialog.getByText('A key must expire in the future.').waitFor()
  expect(await look('key-ends')).toEqual([])
  await dialog.getByLabel('Last day').fill('2098-12-31')
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  await dialog.getByRole('button', { name: 'I have it' }).click()
  const row = (name: string) => page.getByRole('row').filter({ hasText: name })
  await row('campaign')
    .getByText(/^in 7\d years$/)
    .waitFor()
  await row('last year').getByText('Expired').waitFor()
  await row('last year').getByText('1 hour ago').waitFor()
  expect(await row('campaign').getByText('Expired').count()).toBe(0)
  const { items } = await visit.posthorn
    .cli<{ items: object[] }>('key', 'list', shop.id)
    .then((keys) => ({ items: keys as never }))
  expect(items).toContainEqual(expect.objectContaining({ name: 'last year', expired: true }))
  expect(await look('keys')).toEqual([])
})

test('a refusal names its sender, and the key or login that it was, as the page of keys does', async () => {
  const { id: revoked, prefix } = await visit.posthorn.cli<{ id: string; prefix: string }>(
    'key',
    'create',
    shop.id,
    '--name',
    'old billing',
    '--scope',
    'mail.send',
  )
  await visit.posthorn.cli('key', 'revoke', revoked)
  const login = await visit.posthorn.cli<{ id: string; username: string }>(
    'smtp-credential',
    'create',
    shop.id,
    '--name',
    'wordpress',
  )
  const refused = (source: string, caller: string) =>
    visit.posthorn.query(
      `insert into refused_submissions (workspace_id, id, source, code, caller_id, sender)
       values ($1, uuid_floor(now()), $2, 'invalid_request', $3, case $2 when 'smtp' then 'www-data@web01.internal.shop.example' end)
       on conflict do nothing`,
      [shop.id, source, caller],
    )
  await refused('rest', revoked)
  await refused('smtp', login.id)
  expect((await shop.send({ recipient: 'nobody' })).status).toBe(400)
  await go('/refused')
  const row = (name: string) => page.getByRole('row').filter({ hasText: name })
  await row('wordpress').getByText(login.username).waitFor()
  await row('wordpress').getByText('www-data@web01.internal.shop.example').waitFor()
  await row('old billing').getByText(`${prefix}…`).waitFor()
  await row('test').getByRole('link', { name: /^test/ }).waitFor()
  // Sentences have room to be read, also where addresses beside them are long.
  const why = await row('wordpress').getByRole('cell').first().boundingBox()
  expect(why?.width).toBeGreaterThan(270)
  expect(await look('refused-callers')).toEqual([])
  await row('wordpress')
    .getByRole('link', { name: /^wordpress/ })
    .click()
  await heading(page, 'API & SMTP')
})

test('whom somebody has suppressed by hand says who it was', async () => {
  await go('/suppressions')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByLabel('Address').fill('angry@example.com')
  await page.getByRole('button', { name: 'Suppress', exact: true }).click()
  await page.getByRole('row').filter({ hasText: 'angry@example.com' }).getByText(`by ${owner.email}`).waitFor()
  await visit.posthorn.cli('suppression', 'remove', shop.id, 'angry@example.com')
})

describe('what has no room in a column', () => {
  const evidence =
    '550 5.1.1 <bob@example.com>: Recipient address rejected: User unknown in virtual mailbox table of this host'
  beforeAll(async () => {
    await visit.posthorn.query(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, evidence)
       values ($1, 'bob@example.com', 'bob@example.com', 'hard_bounce', 'mailbox-does-not-exist', $2)`,
      [shop.id, evidence],
    )
  })

  test('is opened by the keyboard on a desk', async () => {
    await go('/suppressions')
    const cell = page.getByRole('button', { name: evidence })
    const isCut = () =>
      cell.evaluate(
        (element: { scrollWidth: number; clientWidth: number }) => element.scrollWidth > element.clientWidth,
      )
    await cell.focus()
    expect(await isCut()).toBe(true)
    await page.keyboard.press('Enter')
    expect(await cell.getAttribute('aria-expanded')).toBe('true')
    expect(await isCut()).toBe(false)
    expect(await look('evidence')).toEqual([])
  })

  const hidden: [path: string, words: string][] = [
    ['/suppressions', evidence],
    ['/suppressions', 'rule mailbox-does-not-exist'],
    ['/settings', 'mail.send, mail.status.read'],
    ['/audit', 'name: campaign'],
    ['/messages', 'Your order'],
  ]
  test.each(hidden)('stands below the first cell on a phone: %s', async (path, words) => {
    await page.setViewportSize({ width: 390, height: 844 })
    await go(path)
    await loaded(page)
    await page.getByRole('definition').filter({ hasText: words }).first().waitFor()
    await page.setViewportSize({ width: 1280, height: 900 })
    await expect.poll(() => page.getByRole('definition').filter({ hasText: words }).count(), soon).toBe(0)
    expect(await look(`phone-${path.slice(1)}`)).toEqual([])
  })
})

test('a late event of an old message is found in the log of the webhook by its state and its message', async () => {
  const receiver = await startWebhookReceiver()
  receiver.answer = status(200)
  const id = await shop.accepted({ recipient: 'carol@example.com' })
  await shop.settled(id)
  await visit.posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
  await visit.posthorn.query(
    `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, status)
     values ($1, $2, 1, 1, 8, now(), false, 500)`,
    [shop.id, id],
  )
  await go('/webhook')
  const rows = page.getByRole('group', { name: 'Log of webhook events' }).locator('tbody tr')
  await expect.poll(() => rows.count(), soon).toBeGreaterThan(3)
  // Whose event it is stands in its row, and leads there.
  await rows.first().getByText('Your order').waitFor()
  await rows.first().getByRole('link', { name: 'carol@example.com' }).click()
  await heading(page, 'Your order')
  await go('/webhook')
  await expect.poll(() => rows.count(), soon).toBeGreaterThan(3)
  const search = page.getByRole('search')
  await search.getByLabel('State').selectOption('failed')
  await expect.poll(() => rows.allInnerTexts(), soon).toEqual([expect.stringContaining('message.queued')])
  expect(await look('webhook-log')).toEqual([])
  await search.getByLabel('Event').selectOption('message.complained')
  await page.getByText('No such event was found.').waitFor()
  await search.getByLabel('Event').selectOption('')
  await search.getByLabel('State').selectOption('')
  await search.getByLabel('Message').fill(id.slice(0, 9))
  await page.getByText('This is no id of a message.').waitFor()
  await search.getByLabel('Message').fill(id)
  await expect.poll(() => rows.last().innerText(), soon).toContain('message.queued')
  const told = await visit.posthorn.cli<{ messageId: string }[]>(
    'webhook',
    'log',
    shop.id,
    '--message',
    id,
    '--state',
    'failed',
  )
  expect(told).toEqual([expect.objectContaining({ messageId: id, type: 'message.queued', state: 'failed' })])
  await receiver.stop()
})

test('what can be done to a row is in sight on a tablet, and all columns are again where there is room', async () => {
  await page.setViewportSize({ width: 1024, height: 768 })
  await go('/settings')
  const revoke = page.getByRole('button', { name: 'Revoke test' })
  await revoke.waitFor()
  const list = page.getByRole('group', { name: 'API keys' })
  const isInSight = async () => {
    const [inner, outer] = await Promise.all([revoke.boundingBox(), list.boundingBox()])
    return inner !== null && outer !== null && inner.x + inner.width <= outer.x + outer.width
  }
  await expect.poll(isInSight, soon).toBe(true)
  await list.getByText('Last used').first().waitFor()
  await page.setViewportSize({ width: 1440, height: 900 })
  await list.getByRole('columnheader', { name: 'Last used' }).waitFor()
  await page.setViewportSize({ width: 1280, height: 900 })
})

test('on a phone a state stands level with the words before it', async () => {
  await shop.accepted({ recipient: 'delivered@simulator.posthorn.test', subject: 'Level' })
  await page.setViewportSize({ width: 390, height: 844 })
  await go('/messages')
  const line = page
    .getByRole('row')
    .filter({ hasText: 'Level' })
    .locator('dl > div')
    .filter({ hasText: 'Provider says' })
  const bottomOf = (words: string) =>
    line.getByText(words, { exact: true }).evaluate((element) => {
      const text = element.ownerDocument.createRange()
      text.selectNodeContents(element)
      return text.getBoundingClientRect().bottom
    })
  expect(await bottomOf('Provider says')).toBeCloseTo(await bottomOf('Delivered'), 0)
  await page.setViewportSize({ width: 1280, height: 900 })
})

test('whoever works by keys stays in the list when what they pressed goes away', async () => {
  for (const recipient of ['gone@example.com', 'there@example.com'])
    await visit.posthorn.cli('suppression', 'add', shop.id, recipient)
  const remove = async (recipient: string) => {
    await page.getByRole('button', { name: `Remove ${recipient}` }).press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).press('Enter')
    await page.getByRole('button', { name: `Remove ${recipient}` }).waitFor({ state: 'detached' })
  }
  const focused = () => page.evaluate<string>(`document.activeElement.ariaLabel ?? document.activeElement.textContent`)
  await go('/suppressions?prefix=gone')
  await remove('gone@example.com')
  // Of an empty list nothing is left but the page.
  await expect.poll(focused, soon).toBe('Suppressions')
  expect(await page.evaluate<string>(`document.activeElement.tagName`)).toBe('H1')
  await go('/suppressions')
  await visit.posthorn.cli('suppression', 'add', shop.id, 'gone@example.com')
  await page.reload()
  await remove('gone@example.com')
  await expect.poll(focused, soon).toBe('Suppressions')
  expect(await page.evaluate<string>(`document.activeElement.role`)).toBe('group')
  await visit.posthorn.cli('suppression', 'remove', shop.id, 'there@example.com')
})

test('a file of another service comes in, one whose head line says nothing is refused with it, and wrong lines stand below each other', async () => {
  await go('/suppressions')
  await page.getByRole('button', { name: 'Import' }).click()
  const dialog = page.getByRole('dialog')
  const choose = (text: string) =>
    dialog.getByLabel('CSV file').setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
  await dialog.getByLabel('Where the file tells no reason').selectOption('complaint')
  await choose('EmailAddress;SuppressionReason;Origin\nmoved@b.example;HardBounce;Recipient\nmoved-too@b.example;;\n')
  await dialog.getByText('2 added, 0 were there already. Not read: Origin.').waitFor()
  expect(await look('import-done')).toEqual([])
  await choose('Kontakt,Grund\na@b.example,HardBounce\n')
  const alert = dialog.getByRole('alert')
  await alert.getByText('must name the column of the addresses "recipient"').waitFor()
  expect(await look('import-foreign')).toEqual([])
  await choose('a@b.example\nnope\nnobody@\n')
  await expect.poll(async () => (await alert.innerText()).split('\n').length, soon).toBe(3)
  expect(await look('import-wrong')).toEqual([])
})

test('a row leads where its first cell does, and its words can be selected', async () => {
  await go('/domains')
  const row = page.getByRole('row').filter({ hasText: shop.address.split('@')[1] ?? '' })
  await row.waitFor()
  // As a drag over the words does it, which ends in a click, too.
  await page.evaluate(`getSelection().selectAllChildren(document.querySelector('main tbody time'))`)
  await row.getByText(/ago$/).dispatchEvent('click')
  expect(page.url()).toMatch(/\/domains$/)
  await page.evaluate('getSelection().removeAllRanges()')
  // What a link makes of such a click is the browser's matter: a tab, behind, of which Chromium under load has told nobody.
  await page.evaluate(`addEventListener('click', (event) => {
    const link = event.target.closest('a')
    if (link === null) return
    globalThis.pressed = { isLeft: !event.defaultPrevented && event.ctrlKey, text: link.innerText }
    event.preventDefault()
  })`)
  await row.getByText(/ago$/).click({ modifiers: ['Control'] })
  await expect
    .poll(() => page.evaluate('globalThis.pressed'), soon)
    .toEqual({ isLeft: true, text: shop.address.split('@')[1] })
  expect(page.url()).toMatch(/\/domains$/)
  await row.getByText(/ago$/).click()
  await heading(page, shop.address.split('@')[1] ?? '')
  // One that leads nowhere says nothing else.
  await go('/settings')
  const key = page.getByRole('row').filter({ hasText: 'mail.send' }).first()
  await key.waitFor()
  expect(await key.getAttribute('class')).not.toContain('hover:')
})

test.each(['hard-bounce', 'late-bounce'])('a %s says in plain words, once, what it was about', async (kind) => {
  const id = await shop.accepted({ recipient: `${kind}@simulator.posthorn.test` })
  await shop.until(id, ({ deliveryStatus }) => deliveryStatus === 'hard_bounce')
  await go(`/messages/${id}`)
  await page.getByText('For programs: class').waitFor()
  expect(await page.getByText('The server knows no such recipient.').count()).toBe(1)
  expect(await look(kind)).toEqual([])
})

test('the name of a mailbox is changed, and messages are narrowed to one mailbox', async () => {
  const other = await visit.posthorn.cli<{ id: string }>(
    'mailbox',
    'add',
    shop.id,
    `news@${shop.address.split('@')[1]}`,
  )
  await go('/mailboxes')
  await page.getByRole('button', { name: `Name ${shop.address}` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Corner Shop')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('row').filter({ hasText: shop.address }).getByText('Corner Shop').waitFor()
  expect(await look('mailboxes')).toEqual([])
  const set = (...args: string[]) => visit.posthorn.cli<{ name?: string }>('mailbox', 'set', shop.mailboxId, ...args)
  expect(await set('--name', 'Shop')).toMatchObject({ name: 'Shop', status: 'active' })
  expect(await set('--name', '')).not.toHaveProperty('name')
  await expect(set()).rejects.toThrow('give --status or --name')

  await shop.accepted({ recipient: 'dora@example.com' })
  await go('/messages')
  await page.getByRole('link', { name: 'dora@example.com' }).waitFor()
  await page.getByLabel('Mailbox').selectOption(other.id)
  await page.getByText('Nothing was found.').waitFor()
  expect(page.url()).toContain(`mailboxId=${other.id}`)
  await page.getByLabel('Mailbox').selectOption(shop.address)
  await page.getByRole('link', { name: 'dora@example.com' }).waitFor()
  expect(await look('of-a-mailbox')).toEqual([])
})

test('while delivery is stopped, the story of a message that waits says so, and operators see why', async () => {
  await visit.posthorn.cli('drain')
  const id = await shop.accepted({ recipient: 'emil@example.com' })
  await go(`/messages/${id}`)
  await page.getByText(/^Delivery is stopped on the whole installation;/).waitFor()
  expect(await page.getByText(/^Due /).count()).toBe(0)
  expect(await look('stopped-story')).toEqual([])
  const operator = await visit.signedIn(visit.owner)
  const notice = operator.getByRole('region', { name: 'Delivery stopped' })
  for (const path of ['/operator/queue', '/operator/health']) {
    await go(path, operator)
    await notice.getByText(/posthorn drain --off/).waitFor()
    expect(await look(`stopped-${path.slice(10)}`, operator)).toEqual([])
  }
  // Whoever was woken reads first what is wrong.
  await loaded(operator)
  const checks = await operator.getByRole('region', { name: 'What it needs' }).getByRole('listitem').allInnerTexts()
  const severity = checks.map((said) =>
    ['Broken', 'Look at it', 'Fine', 'Not needed'].findIndex((word) => said.includes(word)),
  )
  expect(severity).toEqual(severity.toSorted((one, other) => one - other))
  expect(new Set(severity).size).toBeGreaterThan(2)
  await visit.posthorn.cli('drain', '--off')
  await shop.settled(id)
  await go('/operator/queue', operator)
  await operator.getByText('The queue is empty.').waitFor()
  expect(await notice.count()).toBe(0)
})

test('operators make a plan and say where it is upgraded, and no name is taken twice', async () => {
  const operator = await visit.signedIn(visit.owner)
  // Made elsewhere since: no list that was read before knows it.
  await visit.posthorn.cli('plan', 'set', 'late', '--daily', '7')
  const late = new RegExp('/api/v1/operator/plans$')
  await operator.route(late, async (route) => {
    const { items } = (await (await route.fetch()).json()) as { items: { name: string }[] }
    await route.fulfill({ json: { items: items.filter(({ name }) => name !== 'late') } })
  })
  await go('/operator/plans', operator)
  // "None" would be read as nothing at all, as the plan beside it has it.
  const limitsOf = (plan: string) =>
    operator.getByRole('row').filter({ hasText: plan }).getByRole('cell').allTextContents()
  await expect.poll(async () => (await limitsOf('unlimited')).slice(2, 5), soon).toEqual(Array(3).fill('no limit'))
  expect((await limitsOf('free')).slice(2, 5)).toEqual(['0', '0', '0'])
  await operator.getByRole('button', { name: 'Make a plan' }).click()
  const dialog = operator.getByRole('dialog')
  await dialog.getByLabel('Name').fill('unlimited')
  await dialog.getByLabel('In a day').fill('500')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  await dialog.getByText('There is a plan "unlimited" already.').waitFor()
  await dialog.getByLabel('Name').fill('late')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  await dialog.getByText('There is a plan "late" already.').waitFor()
  // Behind a refusal the list is read again: perhaps just now.
  await operator.unrouteAll({ behavior: 'wait' })
  await dialog.getByLabel('Name').fill('corner')
  await dialog.getByLabel('Upgrade address').fill('ftp://example.org')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  await dialog.getByText('The upgrade URL must begin with').waitFor()
  expect(await look('plan', operator)).toEqual([])
  await dialog.getByLabel('Upgrade address').fill('https://example.org/plans')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  await operator.getByRole('row').filter({ hasText: 'corner' }).getByText('https://example.org/plans').waitFor()
  await operator.getByRole('button', { name: 'Change corner' }).click()
  // Another operator sets a limit meanwhile: who saves the rest does not take it back.
  await visit.posthorn.cli('plan', 'set', 'corner', '--hourly', '70')
  await dialog.getByLabel('Upgrade address').fill('')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await look('plans', operator)).toEqual([])
  const plans = await visit.posthorn.cli<{ name: string }[]>('plan', 'list')
  expect(plans.find(({ name }) => name === 'corner')).toEqual({
    name: 'corner',
    apiSending: true,
    hourly: 70,
    daily: 500,
    monthly: null,
  })
  expect(plans.find(({ name }) => name === 'unlimited')).toMatchObject({ daily: null })
  expect(plans.find(({ name }) => name === 'late')).toMatchObject({ daily: 7 })
})

test('operators read feedback that had no effect to its end', async () => {
  await visit.posthorn.query(
    `insert into unmatched_feedback (id, received_at, reason, source, sender, addressee, facts, size_bytes, content)
     select (substr(uuid_floor(app_now())::text, 1, 24) || lpad(n::text, 12, '0'))::uuid, app_now() - (60 - n) * interval '1 minute',
            'unknown_message', 'mail', 'list-' || n || '@receiver.example', 'bounces@posthorn.example', '{}', 2048, 'It says nothing.'
       from generate_series(1, 60) n`,
  )
  const operator = await visit.signedIn(visit.owner)
  await go('/operator/feedback', operator)
  const rows = operator.locator('main tbody tr')
  await operator.getByText('list-60@receiver.example').waitFor()
  expect(await rows.count()).toBe(50)
  await operator.getByRole('button', { name: 'Show more' }).click()
  await operator.getByText('list-1@receiver.example').waitFor()
  expect(await rows.count()).toBe(60)
  expect(await look('feedback', operator)).toEqual([])
})
