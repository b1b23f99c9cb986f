// Plans, against a real PostgreSQL: where one may lead to, and two people at once, of whom one gives a plan to a workspace, and the other removes it.
import { expect, test } from 'vitest'
import { makeVault } from '../base/secret.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { createWorkspaceAsOperator, removePlanAsOperator, setPlan } from './workspace.ts'

const world = await storeWorld()
const tools = { db: world.db, vault: makeVault('a key for the test of plans') }

test('a plan leads to a path of this service or to a URL, and by no path to another host', async () => {
  const lead = (upgradeUrl: string) =>
    setPlan(world.db, 'leading', { upgradeUrl }).then(
      (plan) => plan.upgradeUrl,
      () => 'refused',
    )
  expect(await lead('/upgrade')).toBe('/upgrade')
  // To browsers a backslash is a slash (WHATWG URL 4.4).
  for (const elsewhere of ['//host.example', '/\\host.example', '\\\\host.example', 'javascript:alert(1)'])
    expect([elsewhere, await lead(elsewhere)]).toEqual([elsewhere, 'refused'])
})

test('a plan that is removed meanwhile is given to nobody, and who asked hears why', async () => {
  await setPlan(world.db, 'gold', {})
  const removing = await world.holding(`delete from plans where name = 'gold'`)
  const made = createWorkspaceAsOperator(tools, 'operator:test', 'Shop', 'gold').catch(String)
  await world.untilSomebodyWaits()
  await removing.query('commit')
  expect(await made).toContain('There is no plan "gold"')
})

test('a plan that is given meanwhile is not removed, and who asked hears to whom', async () => {
  await setPlan(world.db, 'silver', {})
  const { workspaceId } = await world.sender()
  const giving = await world.holding(`update workspaces set plan = 'silver' where id = $1`, [workspaceId])
  const removed = removePlanAsOperator(tools, 'operator:test', 'silver').catch(String)
  await world.untilSomebodyWaits()
  await giving.query('commit')
  expect(await removed).toContain('The plan "silver" stays, for a workspace has it')
})
