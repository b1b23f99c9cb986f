import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { makeDurably, makeFolders, nameUnlessTaken, replaceDurably } from './folders.ts'
import { Trouble } from './trouble.ts'

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

test('of two that make a file the first one wins, one that replaces it does so as a whole, and a filesystem that cannot do that is named as what it is', () => {
  const place = join(folder, 'place')
  makeFolders(place, 0o700)
  const named = join(place, 'named')
  for (const words of ['first', 'second']) makeDurably(named, words)
  expect(readFileSync(named, 'utf8')).toBe('first')
  replaceDurably(named, 'third')
  expect([readFileSync(named, 'utf8'), statSync(named).mode & 0o777]).toEqual(['third', 0o600])
  expect(readdirSync(place)).toEqual(['named'])
  // Systems answer EPERM where there are no hard links: everywhere for folders.
  mkdirSync(join(folder, 'draft'))
  expect(() => nameUnlessTaken(join(folder, 'draft'), join(folder, 'other'))).toThrow(
    new Trouble(
      `${folder} is on a filesystem without hard links (EPERM), such as a share of Windows: set POSTHORN_DATA_DIR to a folder on a disk`,
    ),
  )
})
