import { expect, test } from 'vitest'
import { makeVault, sealedAs } from '../base/secret.ts'
import { makeAdmitter } from '../store/admit.ts'
import { queueSamples } from './queue-samples.ts'
import { isMailReal } from '../store/routes.ts'
import { storeWorld } from '../store/store.test-kit.ts'

const vault = makeVault('a key for the tests of the queue samples')
const world = await storeWorld()

test('what waits, how late it is, and how domains and endpoints stand, each under its own name', async () => {
  const sender = await world.sender()
  const [held] = await world.claimed(sender, [{ destination: 'held.example' }])
  const admitter = makeAdmitter(world.db)
  await admitter.admit(world.submission(sender))
  await admitter.admit(world.submission(sender))
  const due = 'update outbound set status = $2, due_at = app_now() + $3::interval where message_id = $1'
  await world.db.run(due, [await world.value('select max(message_id::text) from outbound'), 'retrying', '1 hour'])
  await world.db.run(due, [held?.id, 'sending', '-1 day'])
  await world.db.run(`update outbound set due_at = app_now() - interval '1 minute' where status = 'queued'`)
  await world.db.run(`update domains set status = 'degraded' where id = $1`, [sender.domainId])
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed) values ($1, 'https://there.example/', '2026-11-01', '')`,
    [sender.workspaceId],
  )
  // The first is late, the second with somebody; and one is of a workspace whose endpoint gets nothing.
  const deaf = await world.sender()
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed, state, reason) values ($1, 'https://there.example/', '2026-11-01', '', 'disabled', 'by_hand')`,
    [deaf.workspaceId],
  )
  await world.db.run('delete from webhook_queue')
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at, lease_until, lease_owner)
     select w, gen_random_uuid(), 1, app_now() - ago, app_now() + lease, case when lease is not null then gen_random_uuid() end
       from (values ($1::uuid, interval '2 minutes', null::interval), ($1, interval '1 day', interval '1 minute'), ($2, interval '1 day', null)) v (w, ago, lease)`,
    [sender.workspaceId, deaf.workspaceId],
  )
  const samples = await queueSamples(world.db, () => Promise.resolve(false))
  const told = (name: string) =>
    Object.fromEntries(
      samples.flatMap((each) => (each.name === `posthorn_${name}` ? [[each.label ?? '', Math.floor(each.value)]] : [])),
    )
  expect(told('queue_messages')).toEqual({ queued: 1, retrying: 1, sending: 1 })
  // What somebody has is late for nobody.
  for (const queue of ['queue', 'webhook_queue'])
    expect(told(`${queue}_oldest_due_seconds`)).toEqual({ '': expect.toSatisfy((late) => late >= 60 && late < 3_600) })
  expect(told('webhook_queue_events')).toEqual({ '': 2 })
  expect(told('domains')).toMatchObject({ degraded: 1, failed: 0 })
  expect(told('webhook_endpoints')).toMatchObject({ active: 1, disabled: 1 })
})

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
