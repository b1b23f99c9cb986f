import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, property, string } from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hashSecret, installationKey, looksLikeApiKey, makeApiKey, makeVault, sealedAs } from './secret.ts'

const key = 'k'.repeat(32)

describe('the vault', () => {
  test('opens what it sealed, and never seals twice alike', () => {
    assert(
      property(string({ unit: 'grapheme' }), (text) => {
        const vault = makeVault(key)
        const sealed = vault.seal(text, 'route:1')
        expect(vault.open(sealed, 'route:1')).toBe(text)
        expect(vault.seal(text, 'route:1').equals(sealed)).toBe(false)
      }),
      { numRuns: 30 },
    )
  })

  test('a sealed text does not open anywhere else, with another key, or changed', () => {
    const vault = makeVault(key)
    const context = sealedAs.dkimKey('w1', 'example.org')
    const sealed = vault.seal('secret', context)
    expect(makeVault(key).open(sealed, context)).toBe('secret')
    expect(() => vault.open(sealed, sealedAs.dkimKey('w2', 'example.org'))).toThrow(/does not open/)
    expect(() => vault.open(sealed, sealedAs.route('w1'))).toThrow(/does not open/)
    expect(() => makeVault('x'.repeat(32)).open(sealed, context)).toThrow(/does not open/)
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(() => vault.open(changed, context)).toThrow(/does not open/)
    }
    for (let length = 0; length < sealed.length; length++)
      expect(() => vault.open(sealed.subarray(0, length), context)).toThrow(/does not open/)
  })
})

test('an API key has 256 random bits and is kept as its SHA-256', () => {
  const secret = makeApiKey()
  expect(secret).toMatch(/^ph_[A-Za-z0-9_-]{43}$/)
  expect(makeApiKey()).not.toBe(secret)
  expect(looksLikeApiKey(secret)).toBe(true)
  expect(looksLikeApiKey(`${secret}x`)).toBe(false)
  expect(hashSecret('abc').toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

describe('the installation key', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'posthorn-key-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))
  const settings = (dataDir: string, secret?: string) => ({ POSTHORN_DATA_DIR: dataDir, POSTHORN_SECRET_KEY: secret })

  test('is the one that is set, and then no file is made', () => {
    expect(installationKey(settings(folder, key))).toBe(key)
    expect(readdirSync(folder)).toEqual([])
  })

  test('is made once, for its owner alone, and found again', () => {
    const dataDir = join(folder, 'data')
    const made = installationKey(settings(dataDir))
    expect(made.length).toBeGreaterThanOrEqual(43)
    expect(installationKey(settings(dataDir))).toBe(made)
    expect(statSync(join(dataDir, 'secret-key')).mode & 0o777).toBe(0o600)
    expect(readdirSync(dataDir)).toEqual(['secret-key'])
    expect(readFileSync(join(dataDir, 'secret-key'), 'utf8').trim()).toBe(made)
  })

  test('a file that lost its key is never replaced', () => {
    writeFileSync(join(folder, 'secret-key'), '')
    expect(() => installationKey(settings(folder))).toThrow(/backup/)
    expect(readFileSync(join(folder, 'secret-key'), 'utf8')).toBe('')
  })
})
