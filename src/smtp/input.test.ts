// What a peer has sent while a decision is pending.
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
