// `posthorn destination`: limits towards a provider.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer } = commandsOver()

test('limits towards a provider are set, listed and taken away', async () => {
  const set = ['--connections', '4', '--rate', '30/minute', '--warm-up', 'on']
  expect(await answer('destination', 'set', 'Google', ...set)).toEqual({
    name: 'google',
    connections: 4,
    messagesPerConnection: null,
    perMinute: 30,
    warmUpDays: 0,
  })
  expect(await answer('destination', 'list')).toHaveLength(1)
  const wrong = await posthorn(['destination', 'set', 'google', '--connections', 'many'])
  expect([wrong.status, wrong.out]).toEqual([2, ''])
  // Nothing given is wrong usage, and leaves no row of nothing.
  expect(await posthorn(['destination', 'set', 'yahoo'])).toMatchObject({ status: 2 })
  expect(await answer('destination', 'list')).toHaveLength(1)
  expect(await answer('destination', 'remove', 'google')).toEqual({ removed: 'google' })
  expect(await posthorn(['destination', 'remove', 'google'])).toMatchObject({
    status: 1,
    err: 'posthorn: Nothing is set for google; `posthorn destination list` shows what is.\n',
  })
})
