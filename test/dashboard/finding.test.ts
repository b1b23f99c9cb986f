// What somebody finds who has in hand what people have: an address, a subject, an id; and the ways between a message and what became of it.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inspect } from '../world/browser.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { heading, loaded, press, signIn, startVisit, type Visit } from './visit.ts'

let visit: Visit
let shop: JourneyWorkspace
let page: Page
const go = (path: string) => page.goto(`${visit.origin}${path}`)
const soon = { interval: 20, timeout: 15_000 }
const search = async (words: string) => {
  await page.getByRole('searchbox', { name: 'Search' }).fill(words)
  await press(page, 'Search')
}
const screenshots = new URL('screenshots-finding', import.meta.url).pathname
const look = async (name: string) => {
  await loaded(page)
  return inspect(page, screenshots, name)
}

beforeAll(async () => {
  visit = await startVisit()
  shop = await visit.posthorn.workspace({ name: 'Shop' })
  page = await visit.browser.person()
  await signIn(page, visit.origin, await visit.makeLogin('ann@people.example', shop.id, 'owner'))
  await heading(page, 'Overview')
}, 360_000)
afterAll(async () => {
  await visit?.end()
  expect(visit?.browser.incidents).toEqual([])
})

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
  await page.getByRole('link', { name: 'the sandbox', exact: true }).click()
  await page.getByRole('region', { name: 'Header' }).waitFor()
  await page.getByRole('link', { name: 'its story' }).click()
  expect(new URL(page.url()).pathname).toBe(`/messages/${id}`)
})
