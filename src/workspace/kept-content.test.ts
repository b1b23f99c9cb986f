// What a workspace that keeps no content has promised: what was dropped once is gone, whatever is set afterwards (decisions K).
import { expect, test } from 'vitest'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { readStatus } from '../store/views/message-status.ts'
import { changeWorkspace } from './own-workspace.ts'
import { setWorkspace } from './workspace.ts'

const world = await storeWorld()

const byOperator = (id: WorkspaceId) =>
  setWorkspace(world.db, makeVault('a key for the test of kept content'), id, { keepsContent: true })
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
