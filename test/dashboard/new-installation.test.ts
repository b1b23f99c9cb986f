// What stands on a new installation's pages while its route is the sandbox and its host has no name yet: nothing is promised that does not happen,
// and nothing is offered to be set that is wrong.
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { heading, inspector, loaded, press, startVisit, type Visit } from './visit.ts'

const inspect = inspector('new-installation')

let visit: Visit
let workspace: string
let owner: Page
let operator: Page
const go = (path: string, person: Page) => person.goto(`${visit.origin}${path}`)
const look = (name: string, person: Page) => inspect(person, name)

beforeAll(async () => {
  visit = await startVisit({ settings: { POSTHORN_HOSTNAME: 'vm' } })
  workspace = (await visit.posthorn.cli<{ id: string }>('workspace', 'create', '--name', 'Studio')).id
  owner = await visit.signedIn(await visit.makeLogin('ann@people.example', workspace, 'owner'))
  operator = await visit.signedIn(visit.owner)
}, 360_000)

test('where nothing has happened the overview says so, and draws no lines of zeros', async () => {
  const chart = owner.getByRole('region', { name: 'Over time' })
  for (const [path, span] of [
    ['/', '24 hours'],
    ['/?span=days', '30 days'],
  ] as const) {
    await go(path, owner)
    await chart.getByText(`Nothing happened in the last ${span}.`).waitFor()
    expect(await chart.getByRole('slider').count()).toBe(0)
  }
  expect(await look('nothing-yet', owner)).toEqual([])
})

test('an invitation whose mail goes to the sandbox says so to whoever invites, and whom to ask', async () => {
  await go('/members', owner)
  await press(owner, 'Invite')
  const dialog = owner.getByRole('dialog')
  await dialog.getByRole('region', { name: 'No mail' }).getByText('leaves this machine for nobody').waitFor()
  expect(await dialog.getByText('They get a mail').count()).toBe(0)
  expect(await dialog.getByRole('link').count()).toBe(0)
  expect(await look('invite', owner)).toEqual([])
  await dialog.getByLabel('E-mail').fill('bob@people.example')
  await dialog.getByRole('button', { name: 'Invite' }).click()
  await dialog.waitFor({ state: 'detached' })
  await owner.getByRole('cell', { name: 'bob@people.example', exact: true }).waitFor()
  await owner.getByRole('region', { name: 'No mail' }).getByText('Ask whoever runs this Posthorn').waitFor()
  expect(await look('invited', owner)).toEqual([])
})

test('a member of the workspace that sends such mail is led to it', async () => {
  await go('/members', operator)
  await press(operator, 'Invite')
  const dialog = operator.getByRole('dialog')
  await dialog.getByLabel('E-mail').fill('carol@people.example')
  await dialog.getByRole('button', { name: 'Invite' }).click()
  await operator.getByRole('cell', { name: 'carol@people.example', exact: true }).waitFor()
  const [inbox] = await Promise.all([
    operator.context().waitForEvent('page'),
    operator.getByRole('link', { name: 'open it in another tab' }).click(),
  ])
  await heading(inbox, /Sandbox/)
  await inbox.getByRole('row', { name: /carol@people\.example/ }).waitFor()
  await inbox.close()
})

test('where the mail goes out, nothing is said of the sandbox', async () => {
  const { id } = (await visit.posthorn.cli<{ id: string; name: string }[]>('workspace', 'list')).find(
    ({ name }) => name === 'Posthorn',
  ) as { id: string }
  await visit.posthorn.cli('workspace', 'set', id, '--route', 'smtp://127.0.0.1:9')
  await go('/members', owner)
  await press(owner, 'Invite')
  await owner.getByRole('dialog').getByText('They get a mail').waitFor()
  expect(await owner.getByRole('region', { name: 'No mail' }).count()).toBe(0)
  await visit.posthorn.cli('workspace', 'set', id, '--route', 'default')
})

test('a record that would name a host without a full name is not offered, and the page says first what must be set', async () => {
  await visit.posthorn.cli('domain', 'add', workspace, 'studio.example')
  await go('/domains', owner)
  await owner.getByRole('link', { name: 'studio.example' }).click()
  await heading(owner, 'studio.example')
  await loaded(owner)
  await owner.getByRole('region', { name: 'Not ready' }).getByText('POSTHORN_HOSTNAME', { exact: true }).waitFor()
  // Commands and settings look like code, and not like their quotes.
  expect(await owner.getByRole('main').innerText()).not.toContain('`')
  const record = owner.getByRole('listitem').filter({ hasText: 'Where bounces come back to' })
  await record.getByText('Not ready', { exact: true }).waitFor()
  expect(await record.getByRole('button').count()).toBe(0)
  expect(await record.innerText()).not.toMatch(/\bvm\b/)
  const zone = await owner.getByRole('figure', { name: 'zone file' }).innerText()
  expect(zone).toContain('_domainkey.studio.example')
  expect(zone).not.toContain('CNAME')
  expect(await look('domain', owner)).toEqual([])
})

test('the line of the account is in sight on a small screen, and all places can be reached', async () => {
  await operator.setViewportSize({ width: 1280, height: 700 })
  await go('/', operator)
  await heading(operator, 'Overview')
  const person = operator.getByRole('button', { name: 'owner@posthorn.localhost' })
  const box = await person.boundingBox()
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(700)
  await operator.getByRole('link', { name: 'Health' }).click()
  await heading(operator, 'Health')
  await person.click()
  await operator.getByRole('menuitem', { name: 'Sign out' }).waitFor()
})
