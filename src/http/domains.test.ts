// Domains over the management API, against a name server of the tests' own; and what the doctor tells operators.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Domain } from '../workspace/workspace.ts'
import { officeWorld, type BrowserOf, type OfficeWorld } from './office.test-kit.ts'

let office: OfficeWorld
let owner: BrowserOf

beforeAll(async () => {
  office = await officeWorld()
  const { workspaceId } = await office.sender()
  owner = await office.signedIn('owner', workspaceId)
})
afterAll(() => office.close())

const publish = ({ records }: Domain): void => {
  for (const { type, name, value, purpose } of records)
    if (purpose !== 'dmarc') office.dns.zone[name] = type === 'CNAME' ? { cname: value } : { txt: [value] }
}

test('a domain is added, found, and gets a new DKIM key, each with its line in the audit log', async () => {
  const added = (await owner.ask('POST', '/domains', { body: { name: 'api.example' } })).json<Domain>()
  expect(added).toMatchObject({ status: 'pending', vouched: false })
  const path = `/domains/${added.id}`
  expect((await owner.ask('POST', `${path}/check`)).json<Domain>()).toMatchObject({ status: 'pending' })
  publish(added)
  const found = (await owner.ask('POST', `${path}/check`)).json<Domain>()
  expect(found).toMatchObject({ status: 'verified', returnPathHost: 'bounces.api.example' })

  const rotated = (await owner.ask('POST', `${path}/dkim/rotate`)).json<Domain>()
  expect(rotated.records.filter(({ purpose }) => purpose === 'dkim').map(({ status }) => status)).toEqual([
    'verified',
    'pending',
  ])
  publish(rotated)
  const switched = (await owner.ask('POST', `${path}/check`)).json<Domain>()
  expect(switched.records.filter(({ purpose }) => purpose === 'dkim').map(({ status }) => status)).toEqual([
    'verified',
    'retiring',
  ])
  const audit = (await owner.ask('GET', '/audit')).json<{
    items: { actor: string; action: string; target: string }[]
  }>()
  const lines = audit.items
    .filter(({ target }) => target === 'api.example')
    .map(({ actor, action }) => `${actor.split(':')[0]} ${action}`)
  expect(lines.toSorted()).toEqual([
    'posthorn domain.dkim_switched',
    'posthorn domain.return_path',
    'posthorn domain.verified',
    'user domain.added',
    'user domain.dkim_prepared',
  ])
})

test("the simulator's domain sends nothing: it is refused with its field", async () => {
  expect((await owner.ask('POST', '/domains', { body: { name: 'simulator.posthorn.test' } })).json()).toMatchObject({
    code: 'invalid_request',
    field: 'name',
  })
})

test('operators read what the doctor found, and nobody else does', async () => {
  const { workspaceId } = await office.sender()
  const operator = await office.signedIn('viewer', workspaceId, true)
  const { checks } = (await operator.ask('GET', '/operator/doctor')).json<{
    checks: { name: string; status: string }[]
  }>()
  expect(checks.find(({ name }) => name === 'database')).toMatchObject({ status: 'ok' })
  expect(checks.every(({ status }) => ['ok', 'warn', 'fail', 'skipped'].includes(status))).toBe(true)
  expect((await owner.ask('GET', '/operator/doctor')).statusCode).toBe(403)
})
