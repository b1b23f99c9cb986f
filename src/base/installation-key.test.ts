import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { addKeyToFile, dropOldKeysFromFile, installationKeys } from './installation-key.ts'

const key = 'k'.repeat(32)
const firstKey = (settings: Parameters<typeof installationKeys>[0]): string =>
  installationKeys(settings).all()[0] as string

describe('the installation key', () => {
  let folder: string
  beforeEach(() => {
    folder = temporaryFolder()
  })
  const settings = (dataDir: string, secret?: string) => ({
    POSTHORN_DATA_DIR: dataDir,
    POSTHORN_SECRET_KEY: secret,
    POSTHORN_SECRET_KEYS_ACCEPTED: [],
  })

  test('is the one that is set, and then no file is made', () => {
    expect(firstKey(settings(folder, key))).toBe(key)
    expect(readdirSync(folder)).toEqual([])
  })

  test('is made once, for its owner alone, and found again', () => {
    const dataDir = join(folder, 'data')
    const made = firstKey(settings(dataDir))
    expect(made.length).toBeGreaterThanOrEqual(43)
    expect(firstKey(settings(dataDir))).toBe(made)
    expect(statSync(join(dataDir, 'secret-key')).mode & 0o777).toBe(0o600)
    expect(statSync(dataDir).mode & 0o066).toBe(0)
    expect(readdirSync(dataDir)).toEqual(['secret-key'])
    expect(readFileSync(join(dataDir, 'secret-key'), 'utf8').trim()).toBe(made)
  })

  test('a file that lost its key is never replaced', () => {
    writeFileSync(join(folder, 'secret-key'), '')
    expect(() => firstKey(settings(folder))).toThrow(/backup/)
    expect(readFileSync(join(folder, 'secret-key'), 'utf8')).toBe('')
    rmSync(join(folder, 'secret-key'))
    mkdirSync(join(folder, 'secret-key'))
    expect(() => firstKey(settings(folder))).toThrow(/secret-key cannot be read \(EISDIR\): run this as the user who/)
  })

  // What it sealed would stay shut.
  test('that goes while a process runs, or lies behind a link to nowhere, is not made anew', () => {
    const path = join(folder, 'secret-key')
    const running = installationKeys(settings(folder))
    running.all()
    rmSync(path)
    expect(() => running.all()).toThrow(/ENOENT/)
    expect(readdirSync(folder)).toEqual([])
    symlinkSync(join(folder, 'not mounted'), path)
    expect(() => firstKey(settings(folder))).toThrow()
    expect([readdirSync(folder), lstatSync(path).isSymbolicLink()]).toEqual([['secret-key'], true])
  })

  test('that is replaced is seen by a process that runs, also where the new file has the time of the old one', () => {
    const path = join(folder, 'secret-key')
    const running = installationKeys(settings(folder))
    const [old] = running.all()
    const { atime, mtime } = statSync(path)
    utimesSync(path, atime, mtime)
    expect(running.all()).toEqual([old])
    addKeyToFile(settings(folder))
    utimesSync(path, atime, mtime)
    expect(running.all()).toHaveLength(2)
  })

  test('is rotated in the file whole: the new one first, begun once, and a process that runs sees it', () => {
    const at = settings(folder)
    const running = installationKeys(at)
    const [old] = running.all()
    addKeyToFile(at)
    addKeyToFile(at) // begun again after it was cut off
    expect(running.all()).toHaveLength(2)
    expect(running.all()[1]).toBe(old)
    const [fresh] = running.all()
    dropOldKeysFromFile(at)
    expect(running.all()).toEqual([fresh])
    expect(fresh).not.toBe(old)
    expect(readdirSync(folder)).toEqual(['secret-key'])
    expect(statSync(join(folder, 'secret-key')).mode & 0o777).toBe(0o600)
  })

  test('has others beside it where they are set', () => {
    const other = 'o'.repeat(32)
    expect(installationKeys({ ...settings(folder, key), POSTHORN_SECRET_KEYS_ACCEPTED: [other] }).all()).toEqual([
      key,
      other,
    ])
  })
})
