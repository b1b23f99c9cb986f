import { createSecretKey } from 'node:crypto'
import { assert, constantFrom, integer, property, string, uint8Array, uuid } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isGenuine, makeToken, readToken } from './return-path.ts'

const key = { id: 'a', secret: createSecretKey(Buffer.alloc(32, 7)) }
const message = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d'
const workspace = '0199f1c2-0000-7000-8000-000000000001'
const token = makeToken(key, message, workspace)

/** As the bounce mailbox asks it. */
const says = (text: string, owner = workspace, by = key): string | undefined => {
  const read = readToken(text)
  return read !== undefined && read.keyId === by.id && isGenuine(read, by, owner) ? read.messageId : undefined
}

test('a token is under 50 octets of lower case that any server may take for a local part', () => {
  expect(token).toMatch(/^ba[a-z2-7]{42}$/)
  expect(token).toBe(makeToken(key, message, workspace))
})

test('every token names its message, in any case', () => {
  assert(
    property(uuid(), uuid(), uint8Array({ minLength: 32, maxLength: 32 }), (id, owner, secret) => {
      const by = { id: 'k', secret: createSecretKey(secret) }
      const made = makeToken(by, id, owner)
      expect(says(made, owner, by)).toBe(id)
      expect(says(made.toUpperCase(), owner, by)).toBe(id)
    }),
  )
})

describe('what is not believed', () => {
  test('a token with any one character changed', () => {
    assert(
      property(
        integer({ min: 0, max: 43 }),
        constantFrom(...Array.from('abcdefghijklmnopqrstuvwxyz234567')),
        (at, other) => {
          const changed = token.slice(0, at) + other + token.slice(at + 1)
          if (changed !== token) expect(says(changed)).toBeUndefined()
        },
      ),
    )
  })

  test('a token cut anywhere, or with something behind it', () => {
    for (let length = 0; length < token.length; length++) expect(readToken(token.slice(0, length))).toBeUndefined()
    expect(readToken(`${token}a`)).toBeUndefined()
    expect(readToken(`${token}\n`)).toBeUndefined()
  })

  test("a token for another workspace's message", () => {
    expect(says(token, '0199f1c2-0000-7000-8000-000000000002')).toBeUndefined()
  })

  test('a token of another key, also one with the same letter', () => {
    expect(says(token, workspace, { id: 'b', secret: key.secret })).toBeUndefined()
    expect(says(token, workspace, { id: 'a', secret: createSecretKey(Buffer.alloc(32, 8)) })).toBeUndefined()
  })

  test('anything else that a stranger may write', () => {
    assert(
      property(string({ minLength: 40, maxLength: 48 }), (text) => {
        expect(readToken(text)).toBeUndefined()
      }),
    )
    expect(says(`b\u212a${token.slice(2)}`)).toBeUndefined() // the Kelvin sign, an ASCII letter in lower case
  })
})
