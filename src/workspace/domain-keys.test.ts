// Who waits for whom while DKIM keys are made. What becomes of domains is tested over HTTP (http/domains.test.ts) and with their checks.
import { randomBytes } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { makeVault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makeKey } from './domain-keys.ts'

test('keys are made one at a time, by turns: who wants many holds up nobody who wants one', async () => {
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
