// How soon a suppression is felt over SMTP, and when the database is not asked.
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'
import { suppressionLookUp } from './suppressed.ts'

const world = await storeWorld()

const suppress = (sender: Sender, ...keys: string[]) =>
  world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) select $1, k, k, 'manual' from unnest($2::text[]) k`,
    [sender.workspaceId, keys],
  )
const pardon = (sender: Sender, key: string) =>
  world.db.run('delete from suppressions where workspace_id = $1 and recipient_key = $2', [sender.workspaceId, key])

/** The look-up over the real database, which counts what it is asked, and a clock that is moved by hand. */
function lookUp() {
  let asked = 0
  let at = 0
  const isSuppressed = suppressionLookUp(watched(world.db, { asked: () => asked++ }), () => at)
  return {
    isSuppressed,
    move: (ms: number) => (at += ms),
    asked: () => asked,
    /** Asks so often that the list is remembered. */
    warm: async (sender: Sender) => {
      for (let n = 0; n <= limits.suppressionsAskedMany; n++) await isSuppressed(sender.workspaceId, 'nobody@x.test')
    },
  }
}

test('who asks seldom always gets what the database says', async () => {
  const sender = await world.sender()
  const { isSuppressed } = lookUp()
  expect(await isSuppressed(sender.workspaceId, 'ann@x.test')).toBe(false)
  await suppress(sender, 'ann@x.test')
  expect(await isSuppressed(sender.workspaceId, 'ann@x.test')).toBe(true)
})

test('who asks often is answered from memory: suppressed stays suppressed, a removal is felt at once, others have nothing of it', async () => {
  const [sender, other] = [await world.sender(), await world.sender()]
  await suppress(sender, 'ann@x.test', 'bob@x.test')
  const { isSuppressed, warm, asked } = lookUp()
  await warm(sender)
  const before = asked()
  expect(await isSuppressed(sender.workspaceId, 'carl@x.test')).toBe(false)
  expect(asked()).toBe(before)
  expect(await isSuppressed(sender.workspaceId, 'ann@x.test')).toBe(true)
  await pardon(sender, 'ann@x.test')
  expect(await isSuppressed(sender.workspaceId, 'ann@x.test')).toBe(false)
  expect(await isSuppressed(other.workspaceId, 'bob@x.test')).toBe(false)
})

test('what is suppressed meanwhile is felt within a second', async () => {
  const sender = await world.sender()
  const { isSuppressed, warm, move } = lookUp()
  await warm(sender)
  await suppress(sender, 'dora@x.test')
  move(999)
  expect(await isSuppressed(sender.workspaceId, 'dora@x.test')).toBe(true)
})

test('a list that is too long is not remembered, and not read again for a while', async () => {
  const sender = await world.sender()
  await suppress(sender, ...Array.from({ length: limits.suppressionsRememberedMax + 1 }, (_, n) => `u${n}@x.test`))
  const { isSuppressed, warm, asked } = lookUp()
  await warm(sender)
  const before = asked()
  expect(await isSuppressed(sender.workspaceId, 'nobody@x.test')).toBe(false)
  expect(await isSuppressed(sender.workspaceId, 'u7@x.test')).toBe(true)
  expect(asked()).toBe(before + 2)
})
