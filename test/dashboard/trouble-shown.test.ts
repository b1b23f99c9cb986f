// What stops mail or events is seen on the first page, in words and with the way on: a plan that is used up, delivery that is stopped, a receiver
// that takes nothing.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { ok, startWebhookReceiver, status, type WebhookReceiver } from '../world/webhook-receiver.ts'
import { heading, inspector, loaded, startVisit, type Visit } from './visit.ts'

const inspect = inspector('trouble-shown')
const soon = { interval: 20, timeout: 24_000 }

let visit: Visit
let shop: JourneyWorkspace
let page: Page
let receiver: WebhookReceiver
const look = (name: string, person = page) => inspect(person, name)
const overview = async (person = page) => {
  await person.goto(`${visit.origin}/`)
  await heading(person, 'Overview')
  await loaded(person)
}
const region = (name: string, person = page) => person.getByRole('region', { name })

beforeAll(async () => {
  visit = await startVisit({ settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' } })
  shop = await visit.posthorn.workspace({ name: 'Shop', plan: { hourly: 10 } })
  receiver = await ending(startWebhookReceiver)
  page = await visit.signedIn(await visit.makeLogin('ann@people.example', shop.id, 'viewer'))
}, 360_000)

test('a plan that is nearly used up says so, and one that is used up until when, with what was refused for it', async () => {
  for (let n = 0; n < 9; n++) await shop.accepted({ recipient: 'ann@example.com' })
  await overview()
  await region('Plan').getByText('Nearly used up').waitFor()
  expect(await region('Limit reached').count()).toBe(0)
  expect(await look('quota-nearly')).toEqual([])

  await shop.accepted({ recipient: 'ann@example.com' })
  for (let n = 0; n < 2; n++) expect((await shop.send({ recipient: 'ann@example.com' })).status).toBe(429)
  await expect
    .poll(() => visit.posthorn.query('select 1 from refused_submissions where workspace_id = $1', [shop.id]), soon)
    .toHaveLength(2)
  await overview()
  const notice = region('Limit reached')
  await notice.getByText('sending is refused').waitFor()
  await notice.getByText('allows 10 messages in 60 minutes, and 10 are counted').waitFor()
  expect(await notice.getByText('There is room again').innerText()).toMatch(
    /in (?:1 hour|\d\d minutes) \(.*\d\d:\d\d:00 /,
  )
  await region('Plan').getByText('Used up', { exact: true }).waitFor()
  expect(await look('quota-used-up')).toEqual([])
  await notice.getByRole('link', { name: '2', exact: true }).click()
  await heading(page, 'Refused')
  expect(await page.getByLabel('Why').inputValue()).toBe('hourly_limit_reached')
  await expect.poll(() => page.locator('main tbody tr').count(), soon).toBe(2)
  await page.getByRole('link', { name: 'Refused' }).click()
  await expect.poll(() => page.getByLabel('Why').inputValue(), soon).toBe('')
})

describe('delivery that is stopped', () => {
  beforeAll(() => visit.posthorn.cli('drain', '--no-wait'))
  afterAll(() => visit.posthorn.cli('drain', '--off'))

  test('is told to everybody: mail waits, and nothing is lost', async () => {
    await overview()
    await region('Delivery stopped').getByText('Nothing is lost').waitFor()
    expect(await region('Delivery stopped').getByRole('link').count()).toBe(0)
    expect(await look('stopped-for-members')).toEqual([])
  })

  test('is told to operators with its reason, and the way on', async () => {
    const person = await visit.signedIn(visit.owner)
    await overview(person)
    await region('Delivery stopped', person).getByText('posthorn drain --off').waitFor()
    expect(await look('stopped-for-operators', person)).toEqual([])
    await region('Delivery stopped', person).getByRole('link', { name: 'What waits' }).click()
    await heading(person, 'Queue')
    await person.context().close()
  })
})

test('a receiver that takes nothing is seen at once on its page, and after an hour on the first one', async () => {
  receiver.answer = status(503)
  await visit.posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
  await visit.posthorn.query(
    `update plans set hourly = null where name = (select plan from workspaces where id = $1)`,
    [shop.id],
  )
  await shop.accepted({ recipient: 'ann@example.com' })
  const failing = () =>
    visit.posthorn.query('select 1 from webhook_endpoints where workspace_id = $1 and failing_since is not null', [
      shop.id,
    ])
  await expect.poll(failing, soon).toHaveLength(1)
  await page.goto(`${visit.origin}/webhook`)
  await region('Endpoint').getByText('Failing', { exact: true }).waitFor()
  expect(await region('Endpoint').getByText('Active', { exact: true }).count()).toBe(0)
  expect(await region('Webhook failing').count()).toBe(0)
  await overview()
  expect(await region('Webhook failing').count()).toBe(0)

  await visit.posthorn.query(
    `update webhook_endpoints set failing_since = now() - interval '3 hours' where workspace_id = $1`,
    [shop.id],
  )
  await overview()
  await region('Webhook failing').getByText('3 hours ago').waitFor()
  expect(await look('webhook-failing')).toEqual([])
  await region('Webhook failing').getByRole('link', { name: 'webhook page' }).click()
  await heading(page, 'Webhook')
  await region('Webhook failing').waitFor()
  expect(await look('webhook-failing-page')).toEqual([])
})

test('an endpoint that was disabled says that what happens meanwhile is not posted later, and how it is, with the secret until when it still signs', async () => {
  const person = await visit.signedIn(await visit.makeLogin('dora@people.example', shop.id, 'developer'))
  receiver.answer = ok
  await visit.posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
  await visit.posthorn.cli('webhook', 'rotate', shop.id)
  await visit.posthorn.cli('webhook', 'promote', shop.id)
  await person.goto(`${visit.origin}/webhook`)
  const endpoint = region('Endpoint', person)
  await endpoint.getByText(/still signs along until \d+ \w+ \d{4}/).waitFor()
  await endpoint.getByRole('button', { name: 'Disable' }).click()
  await endpoint.getByText('not posted by itself later').waitFor()
  // Nothing is offered that would be refused, and what somebody did by hand is no trouble.
  expect(await endpoint.getByRole('button', { name: 'Send a test event' }).isDisabled()).toBe(true)
  expect(await person.getByRole('button', { name: 'Post again…' }).count()).toBe(0)
  expect(await region('Webhook disabled', person).count()).toBe(0)
  // Of what happened before there was an endpoint: whoever reads that no try has ended waits for one.
  await person.getByRole('row').filter({ hasText: 'Not sent' }).first().getByRole('button').first().click()
  await person.getByRole('dialog').getByText('It was not posted').waitFor()
  await person.keyboard.press('Escape')
  await endpoint.getByRole('button', { name: 'Enable' }).click()
  await endpoint.getByRole('status').getByText('posts those that happened meanwhile').waitFor()
  await person.getByRole('button', { name: 'Post again…' }).waitFor()
  // A form speaks in its own words, not in those of the API.
  await person.getByRole('button', { name: 'Change', exact: true }).click()
  const dialog = person.getByRole('dialog')
  await dialog.getByLabel('All of them').uncheck()
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByRole('group', { name: 'Events' }).getByText('Choose at least one.').waitFor()
  await person.context().close()
})
