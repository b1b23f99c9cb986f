// What a workspace that keeps no content has promised: what was dropped once is gone, whatever is set afterwards (decisions K).
import { expect, test } from 'vitest'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { readStatus } from '../store/views/message-status.ts'
import { watched } from '../store/watched.test-kit.ts'
import { changeWorkspace } from './own-workspace.ts'
import { changeWorkspaceAsOperator } from './workspace.ts'

const world = await storeWorld()

const tools = { db: world.db, vault: makeVault('a key for the test of kept content') }
const byOperator = (id: WorkspaceId, db = world.db) =>
  changeWorkspaceAsOperator({ ...tools, db }, 'operator:test', id, { keepsContent: true })
const byOwner = (workspaceId: WorkspaceId, db = world.db) =>
  changeWorkspace({ db }, { workspaceId, actor: 'user:test', scopes: new Set() }, { keepsContent: true })

const ended = async (id: string | undefined) => {
  await world.db.run('delete from outbound where message_id = $1', [id])
  await world.db.run(`update messages set status = 'sent', finished_at = app_now() where id = $1`, [id])
}

test.each([
  ['an operator', byOperator],
  ['its owner', byOwner],
])(
  'content that was dropped does not come back when %s has it kept again; what is under way is kept',
  async (_, keep) => {
    const sender = await world.sender()
    const { workspaceId } = sender
    await world.db.run('update workspaces set keeps_content = false where id = $1', [workspaceId])
    const [final, waiting] = await world.claimed(sender, [{}, {}])
    if (final === undefined || waiting === undefined) throw new Error('no claims')
    await ended(final.id)
    await keep(workspaceId)
    const told = async (id: typeof final.id) => {
      const { message } = (await readStatus(world.db, workspaceId, id)) ?? {}
      return [message?.bodyText, message?.contentExpiredAt]
    }
    expect(await told(final.id)).toEqual(['', expect.any(Date)])
    expect(await told(waiting.id)).toEqual(['Good morning', undefined])
  },
)

test.each([
  ['an operator', byOperator],
  ['its owner', byOwner],
])('nor does that of a message which ends while %s waits for the rest to go', async (_, keep) => {
  const sender = await world.sender()
  const { workspaceId } = sender
  await world.db.run('update workspaces set keeps_content = false where id = $1', [workspaceId])
  const [under, way] = await world.claimed(sender, [{}, {}])
  if (under === undefined || way === undefined) throw new Error('no claims')
  let seen = 0
  const answered = (name: string) => (name === 'drop-unwanted-contents' && seen++ === 0 ? ended(under.id) : undefined)
  await keep(workspaceId, watched(world.db, { answered }))
  expect(seen).toBeGreaterThan(0)
  const bodies = [under, way].map(async ({ id }) => (await readStatus(world.db, workspaceId, id))?.message.bodyText)
  expect(await Promise.all(bodies)).toEqual(['', 'Good morning'])
})

// Events come in sight behind every older transaction: a long one would hold those of all workspaces back.
test.each([
  ['an operator', byOperator],
  ['its owner', byOwner],
])('what %s has dropped by it goes in bites that are committed each, before the change', async (_, keep) => {
  const sender = await world.sender()
  const { workspaceId } = sender
  const [final] = await world.claimed(sender, [{}])
  await ended(final?.id)
  await world.db.run('update workspaces set keeps_content = false where id = $1', [workspaceId])
  await world.db.run('create table dropped_by as select pg_current_xact_id()::xid tx')
  await world.db.run(
    `create function note_drop() returns trigger language plpgsql as $$ begin update dropped_by set tx = pg_current_xact_id()::xid where exists (select from gone); return null; end $$`,
  )
  await world.db.run(
    'create trigger note_drop after delete on contents referencing old table as gone for each statement execute function note_drop()',
  )
  try {
    await keep(workspaceId)
    const change = `select d.tx = a.xmin together from dropped_by d, audit_log a where a.workspace_id = $1 and a.action = 'workspace.changed'`
    expect(await world.db.run(change, [workspaceId])).toEqual([{ together: false }])
  } finally {
    await world.db.run('drop function note_drop cascade')
    await world.db.run('drop table dropped_by')
  }
})
