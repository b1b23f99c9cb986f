// What waits, asked of the real database: an alert ends by the answer.
import { expect, test } from 'vitest'
import { makeAdmitter } from './admit.ts'
import { routesWaitedFor } from './queue-facts.ts'
import type { RelayRoute } from './reports.ts'
import { storeWorld, type Sender } from './store.test-kit.ts'

const world = await storeWorld()

test('mail waits for the route of its workspace, or else for that of the installation, until it is final', async () => {
  const one = await world.sender()
  const own = await world.sender()
  const asked: RelayRoute[] = ['installation', one.workspaceId, own.workspaceId]
  const waited = async () => (await routesWaitedFor(world.db, asked)).toSorted()
  const queue = async (sender: Sender) =>
    expect(await makeAdmitter(world.db).admit(world.submission(sender))).toMatchObject({ admitted: true })
  const setRoute = (route: Buffer | null) =>
    world.db.run('update workspaces set route_sealed = $2 where id = $1', [own.workspaceId, route])
  await setRoute(Buffer.from('sealed'))
  expect(await waited()).toEqual([])

  await queue(own)
  expect(await waited()).toEqual([own.workspaceId])
  expect(await routesWaitedFor(world.db, ['installation'])).toEqual([])
  await queue(one)
  expect(await waited()).toEqual([own.workspaceId, 'installation'].toSorted())
  await world.db.run(
    `update outbound set status = 'sending', lease_until = now() + interval '1 hour', lease_owner = gen_random_uuid(), epoch = 1, token = 1`,
  )
  expect(await waited()).toEqual([own.workspaceId, 'installation'].toSorted())
  await setRoute(null)
  expect(await waited()).toEqual(['installation'])
  await world.db.run('delete from outbound')
  expect(await waited()).toEqual([])
})
