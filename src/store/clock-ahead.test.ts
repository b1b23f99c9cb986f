// A clock that was ahead and was set right: what it has dated of a time to come holds nothing up until then.
import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { findHolder, insertKey, noteKeyUses } from './api-keys.ts'
import { listDestinationLimits, setDestinationLimits } from './destinations.ts'
import { insertUser } from './people.ts'
import { findSessionHolder, insertSession, noteSession } from './sessions.ts'
import { storeWorld } from './store.test-kit.ts'
import { keepStsPolicy, readStsPolicy } from './sts-policies.ts'

const world = await storeWorld()
const day = 86_400_000
beforeEach(() => world.setClock(new Date(Date.now() + 30 * day).toISOString()))

test('a warm-up that it began is on its first day', async () => {
  await setDestinationLimits(world.db, 'google', { warmUp: true })
  await world.setClock()
  expect(await listDestinationLimits(world.db)).toMatchObject([{ name: 'google', warmUpDays: 0 }])
})

test('the use of a key is noted, as before', async () => {
  const { workspaceId } = await world.sender()
  const [id, secretHash] = [world.nextId(), randomBytes(32)]
  await insertKey(world.db, workspaceId, { id, name: 'k', prefix: 'p', secretHash, scopes: [], expiresAt: null })
  await noteKeyUses(world.db, [{ id, workspace_id: workspaceId }])
  await world.setClock()
  expect(await findHolder(world.db, secretHash)).toMatchObject({ unseen: true })
  await noteKeyUses(world.db, [{ id, workspace_id: workspaceId }])
  expect(await findHolder(world.db, secretHash)).toMatchObject({ unseen: false })
  expect(await world.value('select last_used_at <= app_now() from api_keys where id = $1', [id])).toBe(true)
})

test('a session is seen, and ends when nobody has used it for as long as any other', async () => {
  const [id, userId, tokenHash] = [world.nextId(), world.nextId(), randomBytes(32)]
  const email = 'ann@example.org'
  await insertUser(world.db, { id: userId, email, emailKey: email, name: null, passwordHash: null, operator: false })
  await insertSession(world.db, { id, tokenHash, userId, ms: 90 * day, address: '', agent: '' }, 10)
  await world.setClock()
  const holder = () => findSessionHolder(world.db, tokenHash, day, undefined)
  expect(await holder()).toMatchObject({ unseen: true })
  await noteSession(world.db, id)
  expect(await holder()).toMatchObject({ unseen: false })
  await world.setClock(new Date(Date.now() + 2 * day).toISOString())
  expect(await holder()).toBeUndefined()
})

test('a policy of MTA-STS is no younger than one of now', async () => {
  await keepStsPolicy(world.db, 'sts.test', { id: '1', mode: 'enforce', mx: [], maxAgeSeconds: 60 })
  await world.setClock()
  expect(await readStsPolicy(world.db, 'sts.test')).toMatchObject({ ageMs: 0 })
})
