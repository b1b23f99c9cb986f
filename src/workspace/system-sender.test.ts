// Who sends the installation's own mail, as the database has it: made by the first start, or named by the setting.
import { expect, test } from 'vitest'
import { makeSystemMailbox } from '../first-workspace.ts'
import { makeVault } from '../base/secret.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { addMailbox, listDomains, readSystemSender, setWorkspace } from './workspace.ts'

const vault = makeVault('a key for the tests of the system mailbox')
const hostname = 'mail.shop.example'
const world = await storeWorld()

const sender = (named?: string) =>
  readSystemSender({
    db: world.db,
    vault,
    settings: { POSTHORN_SYSTEM_MAILBOX: named, POSTHORN_HOSTNAME: hostname },
  })

test('the sender is the one that the first start made, by its word, until the DNS has shown its key or a setting names another', async () => {
  expect(await sender()).toBeUndefined()
  await makeSystemMailbox(world.db, vault, hostname)
  const made = await sender()
  expect(made).toMatchObject({
    address: `no-reply@${hostname}`,
    mailbox: 'active',
    workspace: { name: 'Posthorn', status: 'active' },
    domain: { name: hostname, status: 'verified', vouched: true, dkimSeen: false },
  })
  expect(made?.workspace).not.toHaveProperty('route')
  const id = made?.workspace.id as NonNullable<typeof made>['workspace']['id']

  // What a check leaves behind that has found the key.
  const [domain] = await listDomains(world.db, id, hostname)
  const key = domain?.records.find(({ purpose }) => purpose === 'dkim')?.name
  const found = { sights: { [`TXT ${key}`]: { status: 'verified' } }, advice: [], returnPath: 'CNAME' }
  await world.db.run('update domains set found = $1 where workspace_id = $2', [JSON.stringify(found), id])
  expect(await sender()).toMatchObject({ domain: { vouched: true, dkimSeen: true } })

  await setWorkspace(world.db, vault, id, { route: 'smtps://me:word@relay.example' })
  expect(await sender()).toMatchObject({ workspace: { route: 'relay' } })

  const { workspaceId, mailboxId } = await world.sender()
  expect(await sender(mailboxId)).toMatchObject({ domain: { vouched: false }, workspace: { id: workspaceId } })
  expect(await sender('nobody@nowhere.example')).toBeUndefined()
  await addMailbox(world.db, id, `help@${hostname}`)
  expect(await sender(`help@${hostname}`)).toMatchObject({ address: `help@${hostname}` })
  await world.db.run(`update domains set status = 'failed' where workspace_id = $1`, [id])
  expect(await sender()).toMatchObject({ domain: { status: 'failed' } })
  expect(await sender(`help@${hostname}`)).toBeUndefined()
})
