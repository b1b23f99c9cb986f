// What a release before migration 0067 does beside this one, while a domain has an Ed25519 key: its statements, word for word, over the view that has
// its table's name. It goes with that view, one release after this one.
import { readFile } from 'node:fs/promises'
import { beforeEach, expect, test } from 'vitest'
import { prepareDkimKey, switchDkimKey } from './domain-checks.ts'
import { readSigningKeys } from './signing-keys.ts'
import { beginRemoval, carryOnRemoval } from './removal.ts'
import { storeWorld, type Sender } from './store.test-kit.ts'

let sender: Sender
const world = await storeWorld()

const key = { publicKey: 'x', privateKeySealed: Buffer.from('x') }
beforeEach(async () => {
  sender = await world.sender()
  const { workspaceId, domainId } = sender
  await world.db.run(
    `insert into dkim_keys (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, activated_at)
     select $1, $2, 'rsa1', 'rsa-sha256', 'x', 'x', app_now()`,
    [workspaceId, domainId],
  )
  await prepareDkimKey(world.db, workspaceId, domainId, { ...key, selector: 'ed1', algorithm: 'ed25519-sha256' })
  await world.db.transaction((tx) => switchDkimKey(tx, workspaceId, domainId, 'ed1'))
  await prepareDkimKey(world.db, workspaceId, domainId, { ...key, selector: 'ed2', algorithm: 'ed25519-sha256' })
})

const run = (text: string, ...values: unknown[]) =>
  world.db.run<{ selector: string }>(text, [sender.workspaceId, sender.domainId, ...values])
const keys = async () =>
  (
    await world.db.run<{ key: string }>(
      `select concat_ws(' ', selector, state) key from dkim_key_pairs where domain_id = $1 order by selector`,
      [sender.domainId],
    )
  ).map(({ key: each }) => each)

const signing = `select d.name domain, d.return_path_host "returnPathHost", k.selector, k.private_key_sealed sealed,
          coalesce(k.activated_at, k.created_at) since
     from dkim_keys k join domains d on d.workspace_id = k.workspace_id and d.id = k.domain_id
    where k.workspace_id = $1 and k.domain_id = $2
      and (k.state = 'active' or k.retired_at > app_now() - $3 * interval '1 millisecond') order by since, k.selector`

test('what it prepared before the migration reads on behind it', async () => {
  const node = await world.session()
  const ask = async () => {
    const { rows } = await node.query<{ selector: string }>({
      name: 'signing-keys',
      text: signing,
      values: [sender.workspaceId, sender.domainId, 1_000],
    })
    return rows.map(({ selector }) => selector)
  }
  await world.db.run('drop view dkim_keys')
  await world.db.run('alter table dkim_key_pairs rename to dkim_keys')
  expect(await ask()).toEqual(['rsa1', 'ed1']) // no such key can be there yet
  const migration = await readFile(new URL('migrations/0067-an-ed25519-key-beside.sql', import.meta.url), 'utf8')
  await (await world.session()).query(migration)
  expect(await ask()).toEqual(['rsa1'])
})

test('it signs with the RSA key, and shows and checks no other', async () => {
  const signs = await run(signing, 1_000)
  expect(signs.map(({ selector }) => selector)).toEqual(['rsa1'])
  const here = await readSigningKeys(world.db, sender.workspaceId, sender.domainId)
  expect(here.map(({ selector }) => selector)).toEqual(['rsa1', 'ed1'])
  expect(await run('select selector from dkim_keys where workspace_id = $1 and domain_id = $2')).toHaveLength(1)
})

test('its rotation, also of a withdrawn key, leaves the Ed25519 keys alone', async () => {
  const made = await run(
    `insert into dkim_keys (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed, state)
     select d.workspace_id, d.id, $3, 'rsa-sha256', $4, $5, 'pending' from domains d where d.workspace_id = $1 and d.id = $2 for key share
     on conflict do nothing returning selector`,
    'rsa2',
    'x',
    Buffer.from('x'),
  )
  expect(made).toHaveLength(1)
  await run(
    `update dkim_keys k set state = 'retired', retired_at = app_now()
      where k.workspace_id = $1 and k.domain_id = $2 and k.state = 'active'
        and exists (select from dkim_keys p where p.workspace_id = $1 and p.domain_id = $2 and p.selector = $3 and p.state = 'pending')
     returning k.selector`,
    'rsa2',
  )
  await run(
    `update dkim_keys k set state = 'active', activated_at = app_now()
      where k.workspace_id = $1 and k.domain_id = $2 and k.selector = $3 and k.state = 'pending' returning k.selector`,
    'rsa2',
  )
  expect(await keys()).toEqual(['ed1 active', 'ed2 pending', 'rsa1 retired', 'rsa2 active'])
  await run(
    `delete from dkim_keys k where k.workspace_id = $1 and k.domain_id = $2 and k.state = 'retired'
        and (k.retired_at < app_now() - $3 * interval '1 millisecond' or k.selector = any ($4)) returning k.selector`,
    1_000_000,
    ['rsa1', 'ed1'],
  )
  expect(await keys()).toEqual(['ed1 active', 'ed2 pending', 'rsa2 active'])
})

test('where it removes the domain, all keys are gone', async () => {
  await world.db.run('delete from mailboxes where domain_id = $1', [sender.domainId])
  const removed = await run(
    `with free as (
       select d.id from domains d where d.workspace_id = $1 and d.id = $2
          and not exists (select from mailboxes m where m.workspace_id = d.workspace_id and m.domain_id = d.id)),
     keys as (delete from dkim_keys k using free f where k.workspace_id = $1 and k.domain_id = f.id returning k.domain_id)
     delete from domains d using free f where d.workspace_id = $1 and d.id = f.id and (select count(*) from keys) >= 0 returning d.name`,
  )
  expect(removed).toHaveLength(1)
  expect(await keys()).toEqual([])
})

test('where it carries on the removal of a workspace, its bite of the keys takes none, and the domains take them along', async () => {
  const { workspaceId } = sender
  expect(await beginRemoval(world.db, workspaceId, 'operator:test')).toBe(true)
  const bite = 'select many from erase_rows_1($1, $2::text[], $3, 1000, null, null)'
  expect(await world.value(bite, ['dkim_keys', ['domain_id'], workspaceId])).toBe(0)
  await world.value(bite, ['mailboxes', ['id'], workspaceId])
  expect(await world.value(bite, ['domains', ['id'], workspaceId])).toBe(1)
  expect(await keys()).toEqual([])
  expect(await carryOnRemoval(world.db, workspaceId, 'operator:test')).toBe(true)
})
