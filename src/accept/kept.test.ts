// What may be said of an admission whose commit had no answer: a yes only where it is there, and would outlive this server.
import { expect, test } from 'vitest'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { MessageRecord } from '../domain/submission.ts'
import { isKept } from './kept.ts'

const [workspace, id] = ['w' as WorkspaceId, 'm' as MessageId]
const record = { id } as MessageRecord

test('that it can be read is not enough: nobody says yes before something is committed behind it', async () => {
  let commit: () => void = () => undefined
  const committed = new Promise<void>((resolve) => (commit = resolve))
  const kept = isKept({ readRecord: async () => record, commitSomething: () => committed }, workspace, id)
  const soon = new Promise((resolve) => setImmediate(resolve, 'not known yet'))
  expect(await Promise.race([kept, soon])).toBe('not known yet')
  commit()
  expect(await kept).toBe(true)
  const hang = () => Promise.reject(new Error('commits wait for a synchronous standby'))
  await expect(isKept({ readRecord: async () => record, commitSomething: hang }, workspace, id)).rejects.toThrow('wait')
})

test('of what is not there nothing is asked further', async () => {
  let asked = 0
  const tools = { readRecord: async () => undefined, commitSomething: async () => void asked++ }
  expect([await isKept(tools, workspace, id), asked]).toEqual([false, 0])
})
