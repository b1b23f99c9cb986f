// What somebody finds who has in hand what people have: an address, a subject, an id; and the ways between a message and what became of it.
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { heading, inspector, loaded, press, startVisit, type Visit } from './visit.ts'

let visit: Visit
let shop: JourneyWorkspace
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)
const soon = { interval: 20, timeout: 15_000 }
const search = async (words: string) => {
  await page.getByRole('searchbox', { name: 'Search' }).fill(words)
  await press(page, 'Search')
}
const inspect = inspector('finding')
const look = async (name: string) => {
  await loaded(page)
  return inspect(page, name)
}

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  page = await visit.signedIn(await visit.makeLogin('ann@people.example', shop.id, 'owner'))
}, 360_000)

test('a mail of the sandbox is found by its address, its subject and its message, and both lead to one another', async () => {
  const id = await shop.accepted({ recipient: 'ann@example.com', subject: 'Your invoice 77' })
  await shop.settled(id)
  await shop.settled(await shop.accepted({ recipient: 'bob@example.com', subject: 'Your receipt' }))
  const rows = page.getByRole('group', { name: 'Sandbox inbox' }).locator('tbody tr')
  await go('/sandbox')
  await expect.poll(() => rows.count(), soon).toBe(2)
  for (const words of ['Ann <ANN@example.com>', 'ann@', 'INVOICE 77', id]) {
    await search(words)
    await expect.poll(() => rows.allTextContents(), soon).toEqual([expect.stringContaining('Your invoice 77')])
  }
  expect(await look('sandbox-found')).toEqual([])
  // What was looked for is in the address: going back shows it again.
  await page.getByRole('link', { name: 'Your invoice 77' }).click()
  await heading(page, 'Your invoice 77')
  await page.goBack()
  expect(await page.getByLabel('Search').inputValue()).toBe(id)
  await search('no such thing')
  await page.getByText('Nothing was found.').waitFor()
  await press(page, 'Show all')
  await expect.poll(() => rows.count(), soon).toBe(2)

  await rows.filter({ hasText: 'Your invoice 77' }).getByRole('link', { name: 'its story' }).click()
  await page.getByRole('region', { name: 'What happened' }).waitFor()
  expect(await look('message-in-the-sandbox')).toEqual([])
  // What else was sent to the same person.
  await page.getByRole('region', { name: 'Details' }).getByRole('link', { name: 'ann@example.com' }).click()
  await heading(page, 'Messages')
  expect(await page.getByRole('main').getByLabel('Search').inputValue()).toBe('ann@example.com')
  await page.goBack()
  await page.getByRole('region', { name: 'What happened' }).waitFor()
  await page.getByRole('link', { name: 'the sandbox', exact: true }).click()
  await page.getByRole('region', { name: 'Header' }).waitFor()
  await page.getByRole('link', { name: 'its story' }).click()
  expect(new URL(page.url()).pathname).toBe(`/messages/${id}`)
})

test(
  'what a list is narrowed to stays after a reload, on the way back and in a link',
  { timeout: 270_000 },
  async () => {
    const field = (label: string) => page.getByRole('main').getByLabel(label, { exact: true })
    const comesBack = async (label: string, value: string) => {
      await page.reload()
      await loaded(page)
      expect(await field(label).inputValue()).toBe(value)
      await page.getByRole('link', { name: 'Mailboxes' }).click()
      await heading(page, 'Mailboxes')
      await page.goBack()
      await expect.poll(() => field(label).inputValue(), soon).toBe(value)
    }
    for (const recipient of ['zoe@example.com', 'zora@example.com', 'ann@nowhere.example'])
      await visit.posthorn.cli('suppression', 'add', shop.id, recipient)

    await go('/refused')
    await field('Why').selectOption('invalid_json')
    await field('From').fill('2026-02-03')
    await expect.poll(() => new URL(page.url()).search, soon).toBe('?code=invalid_json&from=2026-02-03')
    await comesBack('Why', 'invalid_json')
    await comesBack('From', '2026-02-03')
    await press(page, 'Show all')
    await expect.poll(() => field('Why').inputValue(), soon).toBe('')

    await go('/suppressions')
    const rows = page.getByRole('group', { name: 'Suppressions' }).locator('tbody tr')
    await expect.poll(() => rows.count(), soon).toBe(3)
    await field('Search').pressSequentially('zora@example')
    await expect.poll(() => rows.count(), soon).toBe(1)
    await comesBack('Search', 'zora@example')
    await expect.poll(() => rows.count(), soon).toBe(1)
    await field('Reason').selectOption('complaint')
    await press(page, 'Show all')
    await expect.poll(() => rows.count(), soon).toBe(3)
    expect(await field('Search').inputValue()).toBe('')

    await go('/webhook')
    await field('State').selectOption('failed')
    await comesBack('State', 'failed')

    await go('/')
    await press(page, '30 days')
    await page.reload()
    await page.getByRole('button', { name: '30 days', pressed: true }).waitFor()
    await page.getByRole('navigation').locator('a[aria-current=page]').getByText('Overview').waitFor()

    // Another program writes a link with a number in it.
    await go('/messages?text=4711')
    await loaded(page)
    expect(await field('Search').inputValue()).toBe('4711')
    expect(new URL(page.url()).search).toBe('?text=4711')
  },
)

test('a message that failed is sent again once, and both lead to one another', async () => {
  const id = await shop.accepted({ recipient: 'policy@simulator.posthorn.test', subject: 'Your new password' })
  await shop.settled(id)
  await go(`/messages/${id}`)
  const banner = page.getByRole('region', { name: 'Failed' })
  await banner.getByText('It was surely not taken').waitFor()
  expect(await look('failed')).toEqual([])
  await banner.getByRole('button', { name: 'Send again as a new message' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('gets the same mail as a new message').waitFor()
  // Nobody has the first one.
  expect(await dialog.getByText('twice').count()).toBe(0)
  expect(await inspect(page, 'send-again')).toEqual([])
  await dialog.getByRole('button', { name: 'Send again' }).click()
  await page.getByText('Sent in the place of this message, which failed.').waitFor()
  const next = new URL(page.url()).pathname
  expect(next).not.toBe(`/messages/${id}`)
  await shop.settled(next.slice('/messages/'.length))
  await page.getByRole('link', { name: 'this message' }).click()
  await banner.getByText('It was sent again as this message.').waitFor()
  expect(await banner.getByRole('button').count()).toBe(0)
  expect(await look('failed-and-sent-again')).toEqual([])
  await banner.getByRole('link', { name: 'this message' }).click()
  await banner.getByRole('button', { name: 'Send again as a new message' }).waitFor()
  expect(new URL(page.url()).pathname).toBe(next)
})

test('a failed message whose recipient is suppressed says why it cannot be sent again, and one without its content does not offer it', async () => {
  const recipient = 'policy+sad@simulator.posthorn.test'
  const id = await shop.accepted({ recipient })
  await shop.settled(id)
  await visit.posthorn.query(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual')`,
    [shop.id, recipient],
  )
  await go(`/messages/${id}`)
  await press(page, /^Send again as a new message/)
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
  await page.getByRole('dialog').getByText('The recipient is on the suppression list').waitFor()
  expect(await inspect(page, 'send-again-refused')).toEqual([])
  await visit.posthorn.query('delete from contents where message_id = $1', [id])
  await page.reload()
  const banner = page.getByRole('region', { name: 'Failed' })
  await banner.getByText('Its content is not kept any more').waitFor()
  expect(await banner.getByRole('button').count()).toBe(0)
})

test('what a report says of a failed message is told, and it is not offered again', async () => {
  const id = await shop.accepted({ recipient: 'policy@simulator.posthorn.test' })
  await shop.settled(id)
  const banner = page.getByRole('region', { name: 'Failed' })
  // Who complains has it.
  for (const [rank, state] of [
    [2, 'Delivered'],
    [5, 'Complaint'],
  ] as const) {
    await visit.posthorn.query('update messages set delivery_rank = $2 where id = $1', [id, rank])
    await go(`/messages/${id}`)
    await page.getByText(state, { exact: true }).first().waitFor()
    await banner.getByText('It was refused, and yet it came').waitFor()
    expect(await banner.getByRole('button').count()).toBe(0)
  }
})

test('late proof that an unknown message had been sent is told on both pages where it was sent again', async () => {
  const id = await shop.accepted({ recipient: 'unknown@simulator.posthorn.test' })
  await shop.settled(id)
  await visit.posthorn.query(`update messages set finished_at = finished_at - interval '1 hour' where id = $1`, [id])
  await go(`/messages/${id}`)
  await press(page, /^Send again as a new message/)
  await page.getByRole('dialog').getByText('They may then have it twice.').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
  await page.getByText('Sent in the place of this message, whose outcome nobody can know.').waitFor()
  await visit.posthorn.query(
    `update messages set status = 'sent', armed_epoch = null, armed_token = null where id = $1`,
    [id],
  )
  await page.reload()
  await page.getByText('that it had been sent, too: the recipient may have it twice.').waitFor()
  await page.getByRole('link', { name: 'this message' }).click()
  await page.getByText('Before it was known that it had been sent, it was sent again as this message').waitFor()
})

test('a message is found by a value of its metadata, and by the id or the whole reply of the receiving server', async () => {
  const id = await shop.accepted({ recipient: 'ann@example.com', subject: 'Your order', metadata: { order: 'ORD-99' } })
  await shop.settled(id)
  await shop.accepted({ recipient: 'ann@example.com', subject: 'Another', metadata: { order: 'ORD-990' } })
  const [row] = await visit.posthorn.query<{ theirs: string }>(
    'select provider_message_id theirs from messages where id = $1',
    [id],
  )
  const theirs = row?.theirs ?? ''
  const links = page.getByRole('group', { name: 'Messages' }).locator('tbody a')
  const leadTo = () => links.evaluateAll((all) => all.map((link) => link.getAttribute('href')))
  await go('/messages')
  for (const words of ['ord-99', theirs, `250 2.0.0 Ok: queued as ${theirs}`]) {
    await search(words)
    await expect.poll(leadTo, soon).toEqual([`/messages/${id}`])
  }
  await search('')
  const metadata = page.getByLabel('Metadata')
  for (const [typed, expected] of [
    ['order=ORD-99', [`/messages/${id}`]],
    ['ORD-99', [`/messages/${id}`]],
    ['colour=ORD-99', []],
  ] as const) {
    await metadata.fill(typed)
    await metadata.press('Enter')
    await expect.poll(() => new URL(page.url()).searchParams.get('metadata'), soon).toBe(typed)
    await expect.poll(leadTo, soon).toEqual(expected)
  }
  await page.getByText('Nothing was found.').waitFor()
  await page.goBack()
  expect(await metadata.inputValue()).toBe('ORD-99')
  await expect.poll(leadTo, soon).toEqual([`/messages/${id}`])
  expect(await look('found-by-metadata')).toEqual([])
  await press(page, 'Search')
  await metadata.fill('nothing')
  await metadata.press('Enter')
  await press(page, 'Show all')
  expect(await metadata.inputValue()).toBe('')
  // What can be nowhere is not searched for, and the field says so.
  await metadata.fill('order=')
  await page.getByRole('alert').getByText('It needs a value').waitFor()
})
