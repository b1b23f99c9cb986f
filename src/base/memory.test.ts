import { expect, test } from 'vitest'
import { nurseryMebibytes } from './memory.ts'

const gigabyte = 1024 ** 3

test('a nursery is smaller on a small machine, and a machine with 2 GB, of which the kernel keeps some, is none', () => {
  expect(nurseryMebibytes(64, gigabyte)).toBe(16)
  expect(nurseryMebibytes(64, 1.9 * gigabyte)).toBe(64)
  expect(nurseryMebibytes(64, 24 * gigabyte)).toBe(64)
})
