// Domains over the management API, against a name server of the tests' own; and what the doctor tells operators.
import { expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { addDomainFor, type Domain } from '../workspace/workspace.ts'
import { officeWorld } from './office.test-kit.ts'

const office = await officeWorld()
const { workspaceId } = await office.sender()
const owner = await office.signedIn('owner', workspaceId)

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

test('an Ed25519 key is asked for, ended, and only by whoever may change the domain', async () => {
  const { workspaceId, domainId } = await office.sender()
  const admin = await office.signedIn('admin', workspaceId)
  const viewer = await office.signedIn('viewer', workspaceId)
  const keys = ({ records }: Domain) =>
    records.filter(({ purpose }) => purpose.startsWith('dkim')).map(({ purpose, status }) => `${purpose} ${status}`)
  const rotate = `/domains/${domainId}/dkim/rotate?algorithm=`
  const end = `/domains/${domainId}/dkim/ed25519`
  expect((await viewer.ask('POST', `${rotate}ed25519-sha256`)).statusCode).toBe(403)
  expect((await admin.ask('POST', `${rotate}ed448`)).json()).toMatchObject({
    code: 'invalid_request',
    field: 'algorithm',
  })
  expect((await admin.ask('DELETE', end)).json()).toMatchObject({ code: 'not_found' })
  expect(keys((await admin.ask('POST', `${rotate}ed25519-sha256`)).json<Domain>())).toEqual(['dkim_ed25519 pending'])
  // The one that waits stays, and the log tells of no other.
  expect(keys((await admin.ask('POST', `${rotate}ed25519-sha256`)).json<Domain>())).toEqual(['dkim_ed25519 pending'])
  expect((await viewer.ask('DELETE', end)).statusCode).toBe(403)
  expect(keys((await admin.ask('DELETE', end)).json<Domain>())).toEqual([])
  const audit = (await admin.ask('GET', '/audit')).json<{ items: { action: string; facts?: object }[] }>()
  const lines = audit.items.filter(({ action }) => action.startsWith('domain.'))
  expect(lines.map(({ action, facts }) => [action, facts])).toEqual([
    ['domain.dkim_ended', { selectors: [expect.stringMatching(/^ph/)] }],
    ['domain.dkim_prepared', { algorithm: 'ed25519-sha256' }],
  ])
})

/** Somebody in a workspace that may have so many more domains, and mailboxes. */
async function withRoomFor(many: number) {
  const { workspaceId, domainId } = await office.sender()
  await office.world.db.run(
    `insert into domains (workspace_id, id, name, ownership_token)
     select $1, gen_random_uuid(), 'd' || n || '.example', '' from generate_series(2, $2::integer) n`,
    [workspaceId, limits.domainsPerWorkspaceMax - many],
  )
  await office.world.db.run(
    `insert into mailboxes (workspace_id, id, domain_id, address, address_key)
     select $1, gen_random_uuid(), $2, a, a from generate_series(2, $3::integer) n, concat('m', n, '@d2.example') a`,
    [workspaceId, domainId, limits.mailboxesPerWorkspaceMax - many],
  )
  return office.signedIn('developer', workspaceId)
}

test('domains and mailboxes of a workspace are bounded, as its keys are', async () => {
  const developer = await withRoomFor(0)
  const domain = await developer.ask('POST', '/domains', { body: { name: 'more.example' } })
  expect(domain.json()).toMatchObject({ code: 'conflict', error: expect.stringContaining('at most') as string })
  const mailbox = await developer.ask('POST', '/mailboxes', { body: { address: 'more@d2.example' } })
  expect(mailbox.json()).toMatchObject({ code: 'conflict', error: expect.stringContaining('at most') as string })
})

test('a domain that is there needs no room: an operator vouches for it, and whoever adds it again hears that it is there', async () => {
  const developer = await withRoomFor(0)
  const again = await developer.ask('POST', '/domains', { body: { name: 'd3.example' } })
  expect(again.json()).toMatchObject({ error: 'The workspace already has the domain d3.example.' })
  const theirs = await office.world.value<WorkspaceId>('select workspace_id from members where user_id = $1', [
    developer.login.id,
  ])
  const by = { workspaceId: theirs, actor: 'operator:tester', scopes: new Set<string>() }
  expect(await addDomainFor(office.office, by, 'D3.example', true)).toMatchObject({ status: 'verified', vouched: true })
  const told = `select action from audit_log where workspace_id = $1 and target = 'd3.example'`
  expect(await office.world.db.run(told, [theirs])).toEqual([{ action: 'domain.vouched' }])
})

test('those who come together do not all find room for the last domain, or the last mailbox', async () => {
  const developer = await withRoomFor(1)
  // None is committed before the others have come.
  const holder = await office.world.holding('lock table audit_log in share mode')
  const four = [1, 2, 3, 4]
  const asked = [
    ...four.map((n) => developer.ask('POST', '/domains', { body: { name: `more${n}.example` } })),
    ...four.map((n) => developer.ask('POST', '/mailboxes', { body: { address: `more${n}@d2.example` } })),
  ]
  const waiting = `select count(*)::integer many from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while (((await holder.query<{ many: number }>(waiting)).rows[0]?.many ?? 0) < 2) continue
  await holder.query('commit')
  const statuses = (await Promise.all(asked)).map(({ statusCode }) => statusCode)
  expect(statuses.toSorted((one, other) => one - other)).toEqual([201, 201, 409, 409, 409, 409, 409, 409])
})

test('no connection to the database is held while a DKIM key is made: forty of them took those that the requests of everybody wait for', async () => {
  const { db, vault } = office.office
  const [transaction, seal] = [db.transaction.bind(db), vault.seal.bind(vault)]
  let open = 0
  const openAtSeal: number[] = []
  const spies = [
    vi.spyOn(db, 'transaction').mockImplementation((work) => {
      open++
      return transaction(work).finally(() => open--)
    }),
    vi.spyOn(vault, 'seal').mockImplementation((secret, purpose) => {
      openAtSeal.push(open)
      return seal(secret, purpose)
    }),
  ]
  const added = (await owner.ask('POST', '/domains', { body: { name: 'keys.example' } })).json<Domain>()
  expect((await owner.ask('POST', `/domains/${added.id}/dkim/rotate`)).statusCode).toBe(200)
  for (const spy of spies) spy.mockRestore()
  expect(openAtSeal).toEqual([0, 0])
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
