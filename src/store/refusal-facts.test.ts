// What the doctor is told of refusals by policy holds for every workspace, however many others have much to tell.
import { expect, test } from 'vitest'
import { readRefusalFacts } from './refusal-facts.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()

/** Reports about so many messages of an hour ago. */
const told = (workspaceId: string, many: number, host: string, of: string) =>
  world.db.run(
    `with mail as (
       select (left(uuid_floor(app_now() - interval '1 hour')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id
         from generate_series(1, $2::integer)),
     attempt as (
       insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
       select $1, id, 1, app_now(), 'x', json_build_object('smtp', json_build_object('host', $3::text)) from mail)
     insert into reports (workspace_id, message_id, sequence, type, bounce, source, created_at)
     select $1, id, 3, 'soft_bounce', json_build_object('class', $4::text), 'session', app_now() from mail`,
    [workspaceId, many, host, of],
  )

test('a refusal is told of the host that said it, and the message that is named was refused so', async () => {
  const { workspaceId } = await world.sender()
  await told(workspaceId, 1, 'mx.first.example', 'policy')
  await told(workspaceId, 1, 'mx.first.example', 'temporary')
  const idOf = async (of: string) =>
    world.value<string>(`select message_id from reports where workspace_id = $1 and bounce ->> 'class' = $2`, [
      workspaceId,
      of,
    ])
  const refused = await idOf('policy')
  // A later try spoke to another host; and what was told before, by yet another, is not what this report says.
  await world.db.run(
    `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 2, app_now(), 'x', '{"smtp": {"host": "mx.second.example"}}')`,
    [workspaceId, refused],
  )
  const facts = () => readRefusalFacts(world.db, 6, 24)
  const strict = { host: 'mx.second.example', reports: 1, byPolicy: 1, messageId: refused }
  const good = { host: 'mx.first.example', reports: 1, byPolicy: 0, messageId: null }
  expect(await facts()).toEqual(expect.arrayContaining([strict, good]))
  for (const [sequence, host] of [
    [2, 'mx.before.example'],
    [3, 'mx.third.example'],
  ] as const)
    await world.db.run(
      `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
       values ($1, $2, $3, 'message.soft_bounced', 'failed', 0, app_now(), json_build_object('smtp', json_build_object('host', $4::text)))`,
      [workspaceId, refused, sequence, host],
    )
  expect(await facts()).toEqual(expect.arrayContaining([{ ...strict, host: 'mx.third.example' }, good]))
  await world.db.run('delete from reports')
})

test('the newest workspace is looked at, though older ones have more to tell than is read', async () => {
  for (let n = 0; n < 5; n++) await told((await world.sender()).workspaceId, 6, 'mx.good.example', 'temporary')
  await world.sender() // nothing was said about its mail
  await told((await world.sender()).workspaceId, 6, 'mx.strict.example', 'policy')
  const facts = await readRefusalFacts(world.db, 6, 24)
  expect(facts.toSorted((one, other) => (one.host < other.host ? -1 : 1))).toMatchObject([
    { host: 'mx.good.example', reports: 20, byPolicy: 0 },
    { host: 'mx.strict.example', reports: 4, byPolicy: 4 },
  ])
})
