import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { finalDot, wireBlocks } from './content.ts'

const onWire = (content: Buffer | Buffer[]) => Buffer.concat([...wireBlocks(content), finalDot]).toString('latin1')
/** What a receiver makes of it (RFC 5321 4.5.2). */
const received = (wire: string) => wire.slice(0, -3).replace(/(^|\r\n)\./g, '$1')

test.each([
  ['nothing', '\r\n', '\r\n.\r\n'],
  ['one line', 'a\r\n', 'a\r\n.\r\n'],
  ['a dot alone', '.\r\n', '..\r\n.\r\n'],
  ['dots at line starts', '.a\r\n..b\r\nc.\r\n.\r\n', '..a\r\n...b\r\nc.\r\n..\r\n.\r\n'],
  ['a bare LF and a dot, for servers that take it for a line end', 'a\n.\r\n', 'a\n..\r\n.\r\n'],
])('%s', (_, content, wire) => {
  expect(onWire(Buffer.from(content))).toBe(wire)
})

test('content that does not end with CRLF is a fault', () => {
  for (const content of ['', 'a', 'a\n', 'a\r', '\n', 'a\rb'])
    expect(() => onWire(Buffer.from(content))).toThrow('must end with CRLF')
  expect(() => onWire([])).toThrow('must end with CRLF')
})

test('parts without a byte are nothing, also the last ones', () => {
  const [empty, content] = [Buffer.alloc(0), Buffer.from('a\r\n.b\r\n')]
  expect(onWire([empty, content.subarray(0, 3), empty, content.subarray(3), empty, empty])).toBe(onWire(content))
})

test('content without dots at line starts is not copied', () => {
  const content = Buffer.from('Subject: x\r\n\r\nno dots. at all.\r\n')
  const [block] = wireBlocks(content)
  expect(block?.buffer).toBe(content.buffer)
})

const lines = fc.array(fc.stringMatching(/^[.ab]{0,4}$/), { minLength: 1, maxLength: 12 })

test('whatever the content and however it is cut, the receiver gets it, and only the end looks like an end', () => {
  fc.assert(
    fc.property(lines, fc.array(fc.nat(60)), (given, cuts) => {
      const content = Buffer.from(`${given.join('\r\n')}\r\n`)
      const at = [...new Set([0, ...cuts.filter((cut) => cut < content.length), content.length])].sort((a, b) => a - b)
      const parts = at.slice(1).map((end, index) => content.subarray(at[index], end))
      const wire = onWire(parts)
      expect(wire).toBe(onWire(content))
      expect(received(wire)).toBe(content.toString('latin1'))
      expect(`\r\n${wire}`.indexOf('\r\n.\r\n')).toBe(wire.length - 3)
    }),
  )
})

test('a dot at the start of a block is seen as one at the start of a line', () => {
  const content = Buffer.from(`${'x'.repeat(limits.smtpBlockBytes - 2)}\r\n.y\r\n`)
  expect(onWire(content)).toBe(`${'x'.repeat(limits.smtpBlockBytes - 2)}\r\n..y\r\n.\r\n`)
})
