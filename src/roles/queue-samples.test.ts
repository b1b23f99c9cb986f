import { expect, test } from 'vitest'
import { makeVault, sealedAs } from '../base/secret.ts'
import { queueSamples } from './queue-samples.ts'
import { isMailReal } from '../store/routes.ts'
import { storeWorld } from '../store/store.test-kit.ts'

const vault = makeVault('a key for the tests of the queue samples')
const world = await storeWorld()

test('that there was never a backup is told as soon as mail leaves the machine, be it over the route of one workspace alone', async () => {
  const age = async () =>
    (await queueSamples(world.db, () => isMailReal(world.db, vault, { kind: 'sandbox' }))).find(
      ({ name }) => name === 'posthorn_backup_age_seconds',
    )?.value
  const { workspaceId } = await world.sender()
  const routed = (route: string) =>
    world.db.run('update workspaces set route_sealed = $2 where id = $1', [
      workspaceId,
      vault.seal(route, sealedAs.route(workspaceId)),
    ])
  expect(await age()).toBeUndefined()
  await routed('sandbox')
  expect(await age()).toBeUndefined()
  await routed('smtps://relay.example')
  expect(await age()).toBe(Infinity)
})
