import { expect, test } from 'vitest'
import { countFields } from './header-block.ts'

test.each(['\r\n', '\n', '\r'])('fields are counted to the end of the header, whose lines end with %j', (end) => {
  const mail = ['Received: a', 'received: b', 'X-Received: c', ' Received: d', '', 'Received: e', ''].join(end)
  expect(countFields(Buffer.from(mail), 'received')).toBe(2)
})
