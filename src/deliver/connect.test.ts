// What a connection's helpers promise by themselves; conversations over real sockets are tested in conversation.test.ts.
import { expect, test } from 'vitest'
import { afterPoll } from './connect.ts'

test('whoever asks in the same turn shares a look at the sockets; whoever asks in the middle of it gets one of its own', async () => {
  const order: string[] = []
  const first = afterPoll().then(() => order.push('first'))
  const beside = afterPoll().then(() => order.push('beside'))
  // The first half of the look is over: a poll may be under way from here on.
  await new Promise((resolve) => setImmediate(resolve))
  const later = afterPoll().then(() => order.push('later'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(order).toEqual(['first', 'beside'])
  await Promise.all([first, beside, later])
  expect(order).toEqual(['first', 'beside', 'later'])
})
