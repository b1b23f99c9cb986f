// What a workspace that keeps no content has promised: what was dropped once is gone, whatever is set afterwards (decisions K).
import { expect, test } from 'vitest'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { readStatus } from '../store/views/message-status.ts'
import { changeWorkspace } from './own-workspace.ts'
import { changeWorkspaceAsOperator } from './workspace.ts'

const world = await storeWorld()

const tools = { db: world.db, vault: makeVault('a key for the test of kept content') }
const byOperator = (id: WorkspaceId) => changeWorkspaceAsOperator(tools, 'operator:test', id, { keepsContent: true })
const byOwner = (workspaceId: WorkspaceId) =>
  changeWorkspace(world, { workspaceId, actor: 'user:test', scopes: new Set() }, { keepsContent: true })

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
    await world.db.run('delete from outbound where message_id = $1', [final.id])
    await world.db.run(`update messages set status = 'sent', finished_at = app_now() where id = $1`, [final.id])
    await keep(workspaceId)
    const told = async (id: typeof final.id) => {
      const { message } = (await readStatus(world.db, workspaceId, id)) ?? {}
      return [message?.bodyText, message?.contentExpiredAt]
    }
    expect(await told(final.id)).toEqual(['', expect.any(Date)])
    expect(await told(waiting.id)).toEqual(['Good morning', undefined])
  },
)

// Events come in sight behind every older transaction: a long one would hold those of all workspaces back.
test.each([
  ['an operator', byOperator],
  ['its owner', byOwner],
])('what %s has dropped by it goes in bites that are committed each, before the change', async (_, keep) => {
  const sender = await world.sender()
  const { workspaceId } = sender
  const [final] = await world.claimed(sender, [{}])
  await world.db.run('delete from outbound where message_id = $1', [final?.id])
  await world.db.run(`update messages set status = 'sent', finished_at = app_now() where id = $1`, [final?.id])
  await world.db.run('update workspaces set keeps_content = false where id = $1', [workspaceId])
  await world.db.run('create table dropped_by as select pg_current_xact_id()::xid tx')
  await world.db.run(
    `create function note_drop() returns trigger language plpgsql as $$ begin update dropped_by set tx = pg_current_xact_id()::xid; return null; end $$`,
  )
  await world.db.run(
    'create trigger note_drop after delete on contents for each statement execute function note_drop()',
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
