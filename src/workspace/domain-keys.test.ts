// Who waits for whom while DKIM keys are made, and whose an operator's word is. What becomes of domains is tested over HTTP (http/domains.test.ts) and with their checks.
import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { makeKey } from './domain-keys.ts'
import { addDomain } from './domains.ts'
import { listDomains } from './workspace.ts'

test('keys are made one at a time, by turns: who wants many holds up nobody who wants one', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // on a busy machine all of them take longer than one waits
  onTestFinished(() => void vi.useRealTimers())
  const vault = makeVault(randomBytes(32).toString('base64'))
  const made: string[] = []
  const seal = vault.seal.bind(vault)
  vi.spyOn(vault, 'seal').mockImplementation((secret, purpose) => {
    made.push(purpose)
    return seal(secret, purpose)
  })
  const many = Array.from({ length: 8 }, (_, n) => makeKey(vault, 'greedy' as WorkspaceId, `d${n}.example`))
  await makeKey(vault, 'modest' as WorkspaceId, 'one.example')
  const before = made.filter((purpose) => purpose.includes('greedy')).length
  expect([before > 0, before <= 2]).toEqual([true, true])
  await Promise.all(many)
  expect(made).toHaveLength(9)
})

test('the word of an operator for a domain is for that workspace alone: whoever else claims its name has to show that it is theirs', async () => {
  const world = await storeWorld()
  const tools = { db: world.db, vault: makeVault(randomBytes(32).toString('base64')), hostname: 'node.test' }
  const [known, stranger] = [(await world.sender()).workspaceId, (await world.sender()).workspaceId]
  const add = (workspace: WorkspaceId, verified: boolean) => addDomain(tools, workspace, 'shop.example', verified)
  for (const each of [known, stranger]) await add(each, false)
  expect(await add(known, true)).toMatchObject({ status: 'verified' })
  const theirs = (await listDomains(world.db, stranger, tools.hostname)).find(({ name }) => name === 'shop.example')
  expect(theirs).toMatchObject({ status: 'pending', vouched: false })
})
