// What a page answers to somebody who looks for one thing, in a real browser over the whole binary: how many failed, why it was refused, when it can
// be sent again, where the message of a link is.
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { heading, inspector, loaded, startVisit, type Login, type Visit } from './visit.ts'

const inspect = inspector('answers')
const soon = { interval: 20, timeout: 15_000 }

let visit: Visit
let shop: JourneyWorkspace
let bakery: JourneyWorkspace
let login: Login
let page: Page
const go = (path: string, person = page) => person.goto(`${visit.origin}${path}`)
const look = (name: string, person = page) => inspect(person, name)

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  bakery = await visit.posthorn.workspace({ name: 'Bakery' })
  login = await visit.makeLogin('ann@people.example', shop.id, 'owner')
  await visit.posthorn.cli('user', 'create', '--email', login.email, '--workspace', bakery.id, '--role', 'owner')
  page = await visit.signedIn(login)
  await go(`/?workspace=${shop.id}`)
}, 360_000)

test('the overview counts what failed, leads to it, and says where a list may be shorter than its number', async () => {
  await shop.settled(await shop.accepted({ recipient: 'policy@simulator.posthorn.test' }))
  await go('/')
  const failed = page.getByRole('region', { name: 'Totals' }).getByRole('link', { name: /^Failed/ })
  await expect.poll(() => failed.innerText(), soon).toMatch(/1$/)
  const delivered = page.getByRole('region', { name: 'Totals' }).getByRole('link', { name: /^Delivered/ })
  expect(await delivered.getAttribute('title')).toContain('that stand so now')
  await page.getByText('As a table').click()
  await page.getByRole('group', { name: 'Counts over time' }).getByRole('columnheader', { name: 'Failed' }).waitFor()
  expect(await look('overview')).toEqual([])
  await failed.click()
  await heading(page, 'Messages')
  expect(page.url()).toContain('status=failed')
  await page.getByRole('link', { name: 'policy@simulator.posthorn.test' }).waitFor()
})

test('how long mail took stands whole in its box, however long that was', async () => {
  const slow = await visit.posthorn.workspace({ name: 'Slow' })
  await visit.posthorn.query(
    `insert into hourly_counts (workspace_id, hour, kind, bucket, many) values ($1, date_trunc('hour', now()), 'sent', 78, 100)`,
    [slow.id],
  )
  const login = await visit.makeLogin('slow@people.example', slow.id, 'viewer')
  const person = await visit.signedIn(login)
  await person.setViewportSize({ width: 1280, height: 900 })
  const took = person.getByRole('region', { name: 'Totals' }).getByRole('listitem').filter({ hasText: 'Until sent' })
  await took.getByText(/95% within \d+ min/).waitFor()
  const { width, needed } = await took.evaluate((box) => ({ width: box.clientWidth, needed: box.scrollWidth }))
  expect(needed).toBeLessThanOrEqual(width)
})

test('a refusal is told by what it was about, and then by where it was said', async () => {
  const story = page.getByRole('region', { name: 'What happened' })
  const refused = async (recipient: string) => {
    const id = await shop.accepted({ recipient })
    await shop.settled(id)
    await go(`/messages/${id}`)
    await story.getByRole('heading', { name: 'Refused for good' }).waitFor()
    return id
  }
  const id = await refused('policy@simulator.posthorn.test')
  await story.getByText('The server refused this mail by its policy').waitFor()
  expect(await story.getByText('refuses mail for this recipient').count()).toBe(0)
  expect(await look('refused-by-policy')).toEqual([])
  await refused('hard-bounce@simulator.posthorn.test')
  await story.getByText('The server knows no such recipient.').waitFor()
  // Words that no rule knows.
  await visit.posthorn.query(
    `update events set facts = jsonb_set(facts::jsonb, '{bounce,class}', '"unknown"')
      where message_id = $1 and type = 'message.soft_bounced'`,
    [id],
  )
  await go(`/messages/${id}`)
  await story.getByText('The server refuses mail for this recipient.').waitFor()
})

test('sending again is not offered before it can be done, and then by itself', async () => {
  const id = await shop.accepted({ recipient: 'unknown@simulator.posthorn.test' })
  await shop.settled(id)
  const person = await visit.signedIn(login)
  // The time that passes here passes at the service, too: its own would be told by its answers.
  await person.route(/\/api\/v1\/(?!live)/, async (route) => {
    const response = await route.fetch()
    const { date: _, ...headers } = response.headers()
    await route.fulfill({ response, headers })
  })
  await person.clock.install({ time: Date.now() })
  await go(`/messages/${id}?workspace=${shop.id}`, person)
  const button = person.getByRole('button', { name: 'Send again as a new message' })
  await person.getByText(/possible from \d\d:\d\d/).waitFor()
  expect(await button.isDisabled()).toBe(true)
  expect(await look('too-early', person)).toEqual([])
  await person.clock.fastForward('15:01')
  await expect.poll(() => button.isEnabled(), soon).toBe(true)
  expect(await person.getByText(/possible from/).count()).toBe(0)
})

test('a phone shows all of a list, however long its words are', { timeout: 540_000 }, async () => {
  const long = `${'a'.repeat(60)}@${'b'.repeat(60)}.example`
  await shop.settled(await shop.accepted({ recipient: long, subject: 'A long subject '.repeat(12).trim() }))
  const waiting = await shop.accepted({ recipient: 'deferred@simulator.posthorn.test' })
  await shop.until(waiting, ({ processingStatus }) => processingStatus === 'retrying')
  await visit.posthorn.query(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule, evidence)
     values ($1, $2, $2, 'hard_bounce', 'bad-mailbox-code', '550 5.1.1 No such user here, whoever that may have been')`,
    [shop.id, long],
  )
  await shop.send({ recipient: long })
  const findings: string[] = []
  for (const path of [
    '',
    'messages',
    'refused',
    'suppressions',
    'sandbox',
    'domains',
    'mailboxes',
    'settings',
    'members',
    'audit',
    'webhook',
    'account',
  ]) {
    await go(`/${path}`)
    await loaded(page)
    findings.push(...(await look(`phone-${path === '' ? 'overview' : path}`)))
  }
  const operator = await visit.signedIn(visit.owner)
  for (const path of ['queue', 'plans', 'workspaces', 'feedback', 'health']) {
    await go(`/operator/${path}`, operator)
    await loaded(operator)
    findings.push(...(await look(`phone-operator-${path}`, operator)))
  }
  expect(findings).toEqual([])
})

describe('with two workspaces', () => {
  const shown = (person: Page) => person.getByRole('button', { name: 'Change the workspace' }).textContent()
  const arrive = async () => {
    const person = await visit.signedIn(login)
    return person
  }

  test('each tab keeps its own, and a new one begins with what was looked at last', async () => {
    const first = await arrive()
    await go(`/?workspace=${shop.id}`, first)
    await heading(first, 'Overview')
    const second = await first.context().newPage()
    await go('/messages', second)
    await heading(second, 'Messages')
    expect(await shown(second)).toContain('Shop')
    await first.getByRole('button', { name: 'Change the workspace' }).click()
    await first.getByRole('menuitem', { name: 'Bakery', exact: true }).click()
    await expect.poll(() => shown(first), soon).toContain('Bakery')
    await second.reload()
    await heading(second, 'Messages')
    expect(await shown(second)).toContain('Shop')
    await first.reload()
    await heading(first, 'Overview')
    expect(await shown(first)).toContain('Bakery')
  })

  test('a link to a message of the other one leads there, and to one of nobody nowhere', async () => {
    const id = await bakery.accepted({ recipient: 'ann@example.com', subject: 'Fresh bread' })
    const person = await arrive()
    await go(`/?workspace=${shop.id}`, person)
    await heading(person, 'Overview')
    // A line that breaks is no answer.
    let hasBroken = false
    await person.route(`**/messages/${id}/timeline`, (route) => {
      if (hasBroken || route.request().headers()['x-posthorn-workspace'] !== bakery.id) return route.continue()
      hasBroken = true
      return route.abort()
    })
    await go(`/messages/${id}`, person)
    await person.getByText('No message with this id exists in your workspace.').waitFor()
    const change = person.getByRole('button', { name: 'Change to Bakery' })
    await change.waitFor()
    expect(await look('elsewhere', person)).toEqual([])
    await change.click()
    await heading(person, 'Fresh bread')
    expect(await shown(person)).toContain('Bakery')
    const asked = person.waitForResponse(
      (response) => response.url().includes('/timeline') && response.status() === 404,
    )
    await go('/messages/0199f1c2-0000-7000-8000-00000000000c', person)
    await asked
    await person.getByText('No message with this id exists in your workspace.').waitFor()
    await loaded(person)
    expect(await person.getByRole('button', { name: /^Change to/ }).count()).toBe(0)
    // An address that was cut on its way is told as that; from both one goes on to the search.
    await go('/messages/0199f1c2-0000', person)
    await person.getByText('no id of a message').waitFor()
    await person.getByRole('link', { name: 'Search all messages' }).click()
    await heading(person, 'Messages')
  })
})

test('who has no endpoint yet finds receivers to copy, those of the documentation', async () => {
  const documented = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
  const under = (title: string) =>
    documented
      .split(`### ${title}\n`)[1]
      ?.split('```')[1]
      ?.replace(/^\w+\n|\n$/g, '')
  const receivers = { Node: 'Node, without anything', Python: 'Python', PHP: 'PHP' }
  await go('/webhook')
  for (const [language, title] of Object.entries(receivers)) {
    await page.getByRole('button', { name: language, exact: true }).click()
    expect(await page.getByRole('figure', { name: language }).locator('pre').textContent()).toBe(under(title))
  }
  expect(await page.getByText('docs/').count()).toBe(0)
  expect(await look('receivers')).toEqual([])
})

const firstDomain = async () => {
  await go('/domains')
  return page.locator('main tbody a').first().getAttribute('href')
}

test('a domain whose next look is due is about to be looked at', async () => {
  const id = new URL((await firstDomain()) ?? '', visit.origin).pathname.split('/').at(-1) ?? ''
  const withNextCheck = (seconds: number) =>
    page.route(`**/api/v1/domains/${id}`, async (route) => {
      const domain = (await (await route.fetch()).json()) as object
      await route.fulfill({ json: { ...domain, nextCheckAt: new Date(Date.now() + seconds * 1000).toISOString() } })
    })
  await withNextCheck(-6)
  await go(`/domains/${id}`)
  await page.getByText('about to be looked at').waitFor()
  await withNextCheck(2.1 * 3600)
  await page.reload()
  await page.getByText('next in 2 hours').waitFor()
  expect(await page.getByText('about to be looked at').count()).toBe(0)
  await page.unrouteAll()
})

test('what is pasted into the search is found: the Message-ID of a mail, and an address with its name', async () => {
  const id = await shop.accepted({ recipient: 'dora@example.com', subject: 'Pasted' })
  const paste = async (text: string) => {
    await go('/messages')
    await page.getByLabel('Search').fill(text)
    await page.keyboard.press('Enter')
  }
  await paste(`<${id}@mail.example.com>`)
  await heading(page, 'Pasted')
  await paste('Dora <dora@example.com>')
  await expect.poll(() => new URL(page.url()).searchParams.get('recipient'), soon).toBe('dora@example.com')
  await expect.poll(() => page.locator('main tbody tr').count(), soon).toBe(1)
  expect(await page.getByLabel('Search').inputValue()).toBe('dora@example.com')
})

describe('did they get the mail?', () => {
  const recipient = 'gone@example.net'
  let old: string
  beforeAll(async () => {
    old = await shop.accepted({ recipient })
    await shop.settled(old)
    await go('/messages')
  })

  test('an address that is not whole yet is looked for as words', async () => {
    for (const path of ['/messages?text=gone%40exam', '/messages?recipient=gone%40example']) {
      await go(path)
      await page.getByRole('link', { name: recipient }).waitFor()
    }
    await page.getByLabel('Search', { exact: true }).fill('gone@example')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: recipient }).waitFor()
    expect(new URL(page.url()).searchParams.get('text')).toBe('gone@example')
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('the request id of a refusal, which is no message, leads to what was refused', async () => {
    const { headers } = await shop.send({ recipient: 'nobody' })
    const requestId = headers.get('x-request-id') ?? ''
    await go(`/messages?text=${requestId}`)
    await page.getByText('by its reason and request id').getByRole('link', { name: 'Refused' }).click()
    await heading(page, 'Refused')
    await page.getByRole('row').getByText(requestId).waitFor()
    await go(`/messages?text=gone%40exam`)
  })

  test('a row of the list leads to its message', async () => {
    await page.getByRole('row').filter({ hasText: recipient }).getByText('Sent', { exact: true }).click()
    await heading(page, 'Your order')
    expect(page.url()).toContain(old)
    expect(await page.getByRole('region', { name: 'Suppressed' }).count()).toBe(0)
  })

  test('an address that is suppressed says so where its mail is looked for, and on its older messages', async () => {
    const suppress = (address: string, reason: string, source: string | null) =>
      visit.posthorn.query(
        `insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id) values ($1, $2, $2, $3, $4)`,
        [shop.id, address, reason, source],
      )
    const source = await shop.accepted({ recipient: 'other@example.net', subject: 'The one that bounced' })
    await suppress(recipient, 'hard_bounce', source)
    await suppress('never@example.net', 'manual', null)
    // One that begins so is another one.
    await suppress('never@example.network', 'manual', null)
    await suppress('somebody@example.network', 'complaint', null)

    await go('/messages?recipient=never%40EXAMPLE.net')
    const notice = page.getByRole('region', { name: 'Suppressed' })
    await notice.getByText('because somebody added it by hand').waitFor()
    await page.getByRole('main').getByRole('link', { name: 'Refused' }).first().waitFor()
    expect(await look('not-found-suppressed')).toEqual([])
    await notice.getByRole('link', { name: 'See the suppression' }).click()
    await heading(page, 'Suppressions')
    await page.getByRole('cell', { name: 'never@example.net', exact: true }).waitFor()
    expect(await page.getByLabel('Search').inputValue()).toBe('never@example.net')

    const asked = page.waitForResponse(/\/suppressions\?prefix=somebody/)
    await go('/messages?recipient=somebody%40example.net')
    await (await asked).finished()
    await page.getByText('What was refused never became a message').waitFor()
    await loaded(page)
    expect(await notice.count()).toBe(0)

    await go(`/messages/${old}`)
    await notice.getByText('because a provider said that it does not exist').waitFor()
    expect(await look('message-suppressed')).toEqual([])
    await notice.getByRole('link', { name: 'this message' }).click()
    await heading(page, 'The one that bounced')
  })

  test('who may not send it again reads who may', async () => {
    const id = await shop.accepted({ recipient: 'unknown@simulator.posthorn.test' })
    await shop.settled(id)
    const viewer = await visit.signedIn(await visit.makeLogin('vera@people.example', shop.id, 'viewer'))
    await go(`/messages/${id}`, viewer)
    await viewer.getByRole('region', { name: 'Outcome unknown' }).getByText('Your role may not send it').waitFor()
    expect(await look('viewer-unknown', viewer)).toEqual([])
  })
})
