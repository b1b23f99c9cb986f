import { assert, property, string } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hashSecret, looksLikeApiKey, makeApiKey, makePassword, makeVault, sealedAs } from './secret.ts'

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

  // Else DKIM keys and relay passwords would stay shut behind an update, and passwords and return paths of before it count no more.
  test('what an earlier release has sealed opens, and its MACs are the same', () => {
    const sealed =
      '012cdd4176ec3b4b163a1c894ec28cfcd477c2ca38e4729dd58d80a68807ccd6ad4be9afcbdb2392a3e4170343c96295ec08aba898600e8c57b331'
    expect(makeVault(key).open(Buffer.from(sealed, 'hex'), 'route:w1')).toBe('a secret of an earlier release')
    const macKeys = [makeVault(key), makeVault(key, 'the root')].map((vault) => vault.macKey('return-path').export())
    expect(macKeys.map((each) => each.toString('hex'))).toEqual([
      '25a0df2d4d08d3342f2f82d0c35b624f111918dff75dd301dc972a1d3cd9e2f0',
      'e63888286bdc9ee118fee446db4d671f288edb55b86c5ebe4b20d06c5d162988',
    ])
  })
})

describe('while the installation key is rotated', () => {
  const other = 'n'.repeat(32)

  test('the newest key seals, and all of them open', () => {
    const old = makeVault(key)
    const both = makeVault({ all: () => [other, key] })
    const before = old.seal('secret', 'route:1')
    const after = both.seal('secret', 'route:1')
    expect([both.open(before, 'route:1'), both.open(after, 'route:1')]).toEqual(['secret', 'secret'])
    expect([both.isCurrent(before, 'route:1'), both.isCurrent(after, 'route:1')]).toEqual([false, true])
    expect(() => old.open(after, 'route:1')).toThrow(/does not open/)
    expect(() => makeVault(other).open(before, 'route:1')).toThrow(/does not open/)
  })

  test('a process that runs meanwhile goes along', () => {
    let keys = [key]
    const vault = makeVault({ all: () => keys })
    const before = vault.seal('secret', 'route:1')
    keys = [other, key]
    expect(vault.open(before, 'route:1')).toBe('secret')
    expect(makeVault(other).open(vault.seal('new', 'route:1'), 'route:1')).toBe('new')
  })

  test('keys for MACs stay, since they hang on a root of their own', () => {
    const root = 'r'.repeat(32)
    const before = makeVault(key, root).macKey('return-path a')
    expect(makeVault(other, root).macKey('return-path a').equals(before)).toBe(true)
    expect(makeVault(key, root).macKey('return-path b').equals(before)).toBe(false)
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

test('a password that is printed in a command is no option of it', () => {
  const made = Array.from({ length: 2_000 }, () => makePassword(24))
  expect(new Set(made).size).toBe(made.length)
  expect(made.filter((text) => text.startsWith('-') || Buffer.from(text, 'base64url').length !== 24)).toEqual([])
})
