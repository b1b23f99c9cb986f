// Owners hear once of an endpoint that was disabled by itself, through the real acceptance, whatever dies in between and however many look.
import { afterAll, beforeEach, expect, test } from 'vitest'
import { makeAccept, type Accept } from '../accept/accept.ts'
import { acceptTools, patientScanner } from '../accept/accept.test-kit.ts'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import type { Db } from '../store/database.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { disableEndpoint, enableEndpoint, insertEndpoint } from '../store/webhook-endpoints.ts'
import { createUser } from './logins.ts'
import { makeNotifier, type Notify } from './notices.ts'
import { tellUntold } from './webhook-notices.ts'

let shop: Sender
const scanner = patientScanner()
let people = 0
let owners: string[] = []
const world = await storeWorld()
/** Whose mailbox the installation's own mail goes out from. */
const system = await world.sender()
beforeEach(async () => {
  await world.setClock()
  await world.db.run('delete from webhook_endpoints')
  shop = await world.sender()
  owners = [await member('owner'), await member('owner')]
  await member('admin')
})
afterAll(() => scanner.stop())

async function member(role: 'owner' | 'admin', email = `${role}-${++people}@people.example`): Promise<string> {
  await createUser(world.db, 'cli', { email, operator: false, member: { role, workspace: shop.workspaceId } })
  return email
}

const acceptOn = (db: Db): Accept => makeAccept(acceptTools(world, { scanner }, db))

/** A node with a pool of its own; `around` may stand between its notices and the acceptance. */
function node(around: (notify: Notify) => Notify = (notify) => notify): () => Promise<void> {
  const db = world.anotherNode()
  const notify = makeNotifier({ db, log: silentLog, mailbox: system.mailboxId, accept: acceptOn(db) })
  return () => tellUntold({ db, notify: around(notify), publicUrl: 'https://mail.example', log: silentLog })
}

async function disabled(reason: 'receiver_gone' | 'no_success'): Promise<void> {
  const url = 'https://hooks.example/services/secret?token=secret'
  const made = { url, types: null, apiVersion: '2026-10-01', secret: Buffer.from('sealed') }
  await insertEndpoint(world.db, shop.workspaceId, made)
  await becomes(reason)
}
/** As the sender disables it (end_webhooks_3). */
const becomes = (reason: string) =>
  world.db.run(
    `update webhook_endpoints set state = 'disabled', reason = $2, disabled_at = app_now() where workspace_id = $1`,
    [shop.workspaceId, reason],
  )
const later = (ms: number) => world.setClock(new Date(Date.now() + ms).toISOString())

interface Told {
  readonly recipient: string
  readonly body: string
}
/** What was accepted for the people of this shop. */
const told = async (): Promise<Told[]> => {
  const name = await world.value<string>('select name from workspaces where id = $1', [shop.workspaceId])
  return world.db.run<Told & Record<string, unknown>>(
    `select m.recipient, c.body_text body from messages m join contents c on c.workspace_id = m.workspace_id and c.message_id = m.id
      where m.workspace_id = $1 and m.subject = $2 order by m.id`,
    [system.workspaceId, `The webhook of ${name} is disabled`],
  )
}
const toWhom = async () => (await told()).map(({ recipient }) => recipient).toSorted()

test('every owner, and nobody else, is told which one, why, and what to do; no secret of the address is in it', async () => {
  await disabled('receiver_gone')
  await node()()
  expect(await toWhom()).toEqual(owners)
  const [{ body } = { body: '' }] = await told()
  expect(body).toMatch(/ to hooks\.example\.\n\nIts receiver answered "410 Gone"/)
  // An owner of several workspaces must not land in another one, and enable that one's endpoint.
  expect(body.endsWith(`: https://mail.example/webhook?workspace=${shop.workspaceId}\n`)).toBe(true)
  expect(body).not.toContain('secret')
})

test("what it says is kept as its own words, and not as a customer's", async () => {
  await disabled('receiver_gone')
  await node()()
  const sources = await world.db.run<{ source: string }>('select source from messages where workspace_id = $1', [
    system.workspaceId,
  ])
  expect(new Set(sources.map(({ source }) => source))).toEqual(new Set(['notice']))
})

test('each disabling is told once, however many nodes look at the same time and how often', async () => {
  const nodes = [node(), node(), node()]
  await disabled('no_success')
  for (let look = 1; look <= 3; look++) await Promise.all(nodes.map((tell) => tell()))
  await later(2 * limits.webhookNoticeLeaseMs)
  await Promise.all(nodes.map((tell) => tell()))
  expect(await toWhom()).toEqual(owners)
  expect((await told())[0]?.body).toContain('120 hours')
  await enableEndpoint(world.db, shop.workspaceId)
  await becomes('receiver_gone')
  await Promise.all(nodes.map((tell) => tell()))
  expect(await toWhom()).toEqual([...owners, ...owners].toSorted())
})

test('a node that dies before, between or behind the mails: another one tells the rest, and nobody twice', async () => {
  const dies = (at: number, behind: boolean) => {
    let mails = 0
    return node((notify) => async (notice) => {
      if (++mails === at && behind) await notify(notice)
      if (mails === at) throw new Error('the node dies here')
      return notify(notice)
    })
  }
  await disabled('receiver_gone')
  const deaths: [number, boolean, number][] = [
    [1, false, 0],
    [1, true, 1],
    [2, false, 1],
    [2, true, 2],
  ]
  for (const [round, [at, behind, sent]] of deaths.entries()) {
    await later(2 * round * limits.webhookNoticeLeaseMs)
    await expect(dies(at, behind)()).rejects.toThrow('dies here')
    expect(await told()).toHaveLength(sent)
    // While the lease of the dead one runs, the others leave it alone.
    await node()()
    expect(await told()).toHaveLength(sent)
  }
  for (const ms of [8, 10]) {
    await later(ms * limits.webhookNoticeLeaseMs)
    await node()()
  }
  expect(await toWhom()).toEqual(owners)
})

test('what is refused is said again later, for some days', async () => {
  const mailbox = (status: string) =>
    world.db.run('update mailboxes set status = $2 where id = $1', [system.mailboxId, status])
  await mailbox('disabled')
  await disabled('receiver_gone')
  await node()()
  await mailbox('active')
  // Not at once: what is wrong stands in the log each time.
  await later(2 * limits.webhookNoticeLeaseMs)
  await node()()
  expect(await told()).toEqual([])
  await later(limits.webhookNoticeForMs + 1_000)
  await node()()
  expect(await told()).toEqual([])
  await later(limits.webhookNoticeForMs - 60_000)
  await node()()
  expect(await toWhom()).toEqual(owners)
})

test('what was disabled by hand, or enabled before anybody looked, is not told', async () => {
  await disabled('receiver_gone')
  await enableEndpoint(world.db, shop.workspaceId)
  await node()()
  await disableEndpoint(world.db, shop.workspaceId)
  await node()()
  expect(await told()).toEqual([])
})
