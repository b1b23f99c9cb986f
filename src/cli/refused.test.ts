// What support reads of somebody's refused mail: the row that the service wrote, found by what is known of it.
import { expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { makeRefusalBook } from '../store/refused-submissions.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { around, run } from './command.test-kit.ts'

const world = await storeWorld()
const sender = await world.sender()

async function refused(...args: readonly string[]): Promise<string> {
  const { out, err } = await run(around(world.connection), ['message', 'refused', sender.workspaceId, ...args])
  expect(err).toBe('')
  return out
}

test('the sentence, the login and the request are told; a code, a source and a time choose', async () => {
  expect(await refused()).toBe('Nothing was refused in the last 30 days.\n')
  const book = makeRefusalBook(world.db, silentLog)
  const { workspaceId } = sender
  const callerId = '0199a000-0000-7000-8000-000000000001'
  book.note({
    workspaceId,
    source: 'rest',
    code: 'invalid_request',
    field: 'subject',
    error: 'No line breaks.',
    requestId: 'r-1',
  })
  const from = 'www-data@web01'
  book.note({ workspaceId, source: 'smtp', code: 'mailbox_not_active', sender: from, error: 'Not yours.', callerId })
  await book.quiet()
  const shown = await refused()
  for (const words of ['subject', 'No line breaks.', 'r-1', callerId, from]) expect(shown).toContain(words)
  const found = async (...args: string[]) => JSON.parse(await refused(...args, '--json')) as unknown
  expect(await found('--code', 'invalid_request')).toMatchObject([{ error: 'No line breaks.' }])
  expect(await found('--source', 'smtp')).toMatchObject([{ callerId }])
  expect(await found('--from', '2100-01-01T00:00:00Z')).toEqual([])
  expect(await refused('--code', 'internal_error')).toBe('No such submission was refused in the last 30 days.\n')
})
