// What a peer has sent: while a decision is pending, cut anywhere, and without an end.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { Input } from './input.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('costs no more than a few times its bytes, though they come one by one', async () => {
  const heldBytes = limits.smtpHeldInputBytesMax
  const used = () => {
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  // Of several sessions together: what else grows in a process, some megabytes, is then no part of it that counts.
  const inputs = Array.from({ length: 16 }, () => new Input(1_000))
  const before = used()
  for (const input of inputs)
    for (let n = 0; n < heldBytes; n++) {
      const piece = Buffer.allocUnsafeSlow(1)
      piece[0] = n % 100 === 98 ? 13 : n % 100 === 99 ? 10 : 97
      input.add(piece)
    }
  // What is collected is given back a moment later, on a busy machine.
  await expect.poll(() => used() - before).toBeLessThan(10 * heldBytes * inputs.length)
  const [input = new Input(1_000)] = inputs
  expect(input.heldBytes).toBe(heldBytes)
  input.join()
  for (let n = 0; n < Math.floor(heldBytes / 100); n++) expect(input.line()?.length).toBe(98)
  expect(input.heldBytes).toBe(heldBytes % 100)
})

test('lines are the same wherever what was sent is cut, be it right behind as many bytes as one may have', () => {
  const sent = Buffer.from('aaaa\r\nccccc\r\nb\n\r\r\n\nb\r\n')
  const read = (...pieces: Buffer[]) => {
    const input = new Input(4)
    return pieces.flatMap((piece) => {
      input.add(piece)
      input.join()
      return Array.from({ length: 9 }, () => input.line()?.toString()).filter((line) => line !== undefined)
    })
  }
  const whole = ['aaaa', 'overlong', 'bare', '\r', 'bare', 'b']
  for (let cut = 0; cut <= sent.length; cut++) expect(read(sent.subarray(0, cut), sent.subarray(cut))).toEqual(whole)
  expect(read(...Array.from(sent, (byte) => Buffer.of(byte)))).toEqual(whole)
})

test('of a line beyond what one may have, nothing is kept until its end', () => {
  const input = new Input(4)
  for (let n = 0; n < 100; n++) {
    input.add(Buffer.from('aaaaaaaa'))
    input.join()
    expect(input.line()).toBe(undefined)
    expect(input.heldBytes).toBe(1)
  }
})

// What came in clear text must not count as said under TLS.
test('what is dropped is gone: what was to be read, and what has only just come', () => {
  const input = new Input(100)
  input.add(Buffer.from('read\r\nto be read\r\n'))
  input.join()
  expect(input.line()?.toString()).toBe('read')
  input.add(Buffer.from('just come\r\n'))
  input.drop()
  expect(input.heldBytes).toBe(0)
  input.join()
  expect(input.line()).toBe(undefined)
})
