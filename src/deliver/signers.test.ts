import { createPublicKey, generateKeyPairSync, hash, verify } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { signingKey } from '../mail/dkim.ts'
import { makeSigners } from './signers.ts'

const pem = (pair: { privateKey: { export(as: { type: 'pkcs8'; format: 'pem' }): string | Buffer } }) =>
  String(pair.privateKey.export({ type: 'pkcs8', format: 'pem' }))
const key = (privateKeyPem: string) => signingKey({ domain: 'a.example', selector: 's', privateKeyPem })
const one = key(pem(generateKeyPairSync('rsa', { modulusLength: 2_048 })))
const two = key(pem(generateKeyPairSync('rsa', { modulusLength: 2_048 })))
const edwards = key(pem(generateKeyPairSync('ed25519')))

const signers = makeSigners()
afterAll(() => signers.stop())

const isOf = (by: typeof one, input: string, signature: string) => {
  const [octets, bytes] = [Buffer.from(input, 'latin1'), Buffer.from(signature, 'base64')]
  const publicKey = createPublicKey(by.privateKey)
  return by === edwards
    ? verify(null, hash('sha256', octets, 'buffer'), publicKey, bytes)
    : verify('sha256', octets, publicKey, bytes)
}

describe('signatures in threads', () => {
  test('each of many at once, with several keys, is that of its own input and key', async () => {
    const keys = [one, two, edwards]
    const inputs = Array.from({ length: 100 }, (_, n) => ({ by: keys[n % 3] ?? one, input: `mail ${n} \xe9` }))
    const signatures = await Promise.all(inputs.map(({ by, input }) => signers.sign(by, input)))
    for (const [at, { by, input }] of inputs.entries()) expect(isOf(by, input, signatures[at] ?? '')).toBe(true)
  })

  test('a key that cannot sign spoils its own signatures, and nobody else’s', async () => {
    const wrong = { algorithm: 'rsa-sha256', privateKey: edwards.privateKey } as const
    const ends = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => signers.sign(n % 2 === 0 ? wrong : one, `mail ${n}`)),
    )
    expect(ends.map(({ status }) => status)).toEqual(ends.map((_, n) => (n % 2 === 0 ? 'rejected' : 'fulfilled')))
  })

  test('a thread that is gone costs no signature: three such faults would end a message', async () => {
    const stopped = makeSigners()
    const ends = Array.from({ length: 50 }, (_, n) => stopped.sign(one, `mail ${n}`))
    await stopped.stop()
    for (const [n, end] of ends.entries()) expect(isOf(one, `mail ${n}`, await end)).toBe(true)
    expect(isOf(one, 'late', await stopped.sign(one, 'late'))).toBe(true)
  })
})
