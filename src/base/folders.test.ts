import { statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { makeFolders } from './folders.ts'

const folder = temporaryFolder()

test('a folder and those above it are made once, with their mode', () => {
  const path = join(folder, 'a', 'b')
  expect(makeFolders(path, 0o700)).toBe(true)
  expect([path, join(folder, 'a')].map((each) => statSync(each).mode & 0o777)).toEqual([0o700, 0o700])
  expect(makeFolders(path, 0o700)).toBe(false)
})

test('what cannot be made is an error, and no loop without an end', () => {
  writeFileSync(join(folder, 'file'), '')
  symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling'))
  expect(() => makeFolders('/proc/posthorn/data', 0o700)).toThrow(/ENOENT/)
  expect(() => makeFolders(join(folder, 'file'), 0o700)).toThrow(/EEXIST/)
  expect(() => makeFolders(join(folder, 'file', 'below'), 0o700)).toThrow(/ENOTDIR/)
  expect(() => makeFolders(join(folder, 'dangling'), 0o700)).toThrow(/EEXIST/)
})
