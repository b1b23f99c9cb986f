// What a person, or a workspace with many members, may have at a time: the oldest goes, or the next is refused, and nobody else feels it.
import { randomBytes, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { WorkspaceId } from '../domain/message.ts'
import { saveInvitation } from './invitations.ts'
import { lockMembers } from './members.ts'
import { makeRecorder } from './outbound.ts'
import { insertPasskey } from './passkeys.ts'
import { insertUser, userById } from './people.ts'
import { confirmPendingTotp, replaceRecoveryCodes, setPendingTotp, takeRecoveryCode } from './second-factors.ts'
import { insertSession, listSessionRows } from './sessions.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()

async function person(): Promise<string> {
  const id = randomUUID()
  const email = `${id}@example.com`
  await insertUser(world.db, { id, email, emailKey: email, name: null, passwordHash: null, operator: false })
  return id
}

test('a person has so many sessions: the one that was opened first ends, and none of anybody else', async () => {
  const [ada, bob] = [await person(), await person()]
  const opened: string[] = []
  const open = async (userId: string): Promise<void> => {
    const session = { id: randomUUID(), tokenHash: randomBytes(32), userId, ms: 60_000, address: '', agent: '' }
    await insertSession(world.db, session, 2)
    opened.push(session.id)
  }
  for (const user of [bob, ada, ada, ada]) await open(user)
  const [ofBob, , second, third] = opened
  const living = async (user: string) => (await listSessionRows(world.db, user, 60_000)).map(({ id }) => id)
  expect([await living(ada), await living(bob)]).toEqual([[third, second], [ofBob]])
})

test('a person has so many passkeys, and a workspace so many open invitations', async () => {
  const [ada, bob] = [await person(), await person()]
  const add = async (userId: string): Promise<boolean> => {
    const passkey = { userId, name: 'key', publicKey: randomBytes(8), counter: 0, transports: [] }
    return (await insertPasskey(world.db, { ...passkey, id: randomUUID() }, 2)) !== undefined
  }
  expect([await add(ada), await add(ada), await add(ada), await add(bob)]).toEqual([true, true, false, true])

  const workspaces = [(await world.sender()).workspaceId, (await world.sender()).workspaceId] as const
  const invite = async (workspace: WorkspaceId, ms = 60_000, invitedBy = 'user:x'): Promise<boolean> => {
    const email = `${randomUUID()}@example.com`
    const made = { id: randomUUID(), email, emailKey: email, role: 'viewer', invitedBy } as const
    return (await saveInvitation(world.db, workspace, { ...made, tokenHash: randomBytes(32) }, ms, 2)) !== undefined
  }
  const [one, other] = workspaces
  // What nobody can accept any more makes room.
  const ofNoKey = () => invite(one, 60_000, `key:${randomUUID()}`)
  const answers = [await invite(one, -1), await invite(one), await ofNoKey(), await invite(one), await invite(one)]
  expect([...answers, await invite(other)]).toEqual([true, true, true, true, false, true])
})

test('a recovery code is good once, and for its own person', async () => {
  const [ada, bob] = [await person(), await person()]
  const code = randomBytes(32)
  await replaceRecoveryCodes(world.db, ada, [code])
  const answers: boolean[] = []
  for (const user of [bob, ada, ada]) answers.push(await takeRecoveryCode(world.db, user, code))
  expect(answers).toEqual([false, true, false])
})

test('a node that stands still while it changes members of a workspace holds up no ending, nor what is suppressed by it', async () => {
  const shop = await world.sender()
  const [claim] = await world.claimed(shop, [{}])
  if (claim === undefined) throw new Error('nothing was claimed')
  const other = world.anotherNode()
  const recorder = makeRecorder(other, other, await world.node())
  const bounce = { rule: 'rcpt-5.1.1' }
  await world.db.transaction(async (tx) => {
    await lockMembers(tx, shop.workspaceId)
    const report = {
      type: 'hard_bounce',
      rank: 4,
      detail: '550 no such user',
      bounce,
      suppress: true,
      facts: {},
    } as const
    const smtp = { host: 'mx.example.org', stage: 'rcpt', code: 550 }
    const said = { attempt: { attempt: 1, phase: 'rcpt', smtp }, event: { attempt: 1 }, report }
    const ending = { ...claim, ...said, workspaceId: shop.workspaceId, usesTry: true, outcome: 'failed' }
    expect(await recorder.finish({ ...ending, status: 'failed' })).toBe(true)
  })
  expect(await world.value('select recipient_key from suppressions where workspace_id = $1', [shop.workspaceId])).toBe('ann@example.org') // prettier-ignore
})

test('of two who confirm a second factor at once the later one does not switch it off', async () => {
  const ada = await person()
  const sealed = Buffer.from('sealed')
  await setPendingTotp(world.db, ada, sealed)
  const confirm = () => confirmPendingTotp(world.db, ada, 7, sealed)
  expect([await confirm(), await confirm()]).toEqual([true, false])
  expect((await userById(world.db, ada))?.totpSealed).toEqual(sealed)
})
