// What the installation key seals; API keys and how they are kept. Sealed texts (DKIM keys, relay passwords) are AES-256-GCM
// under a key of their purpose (HKDF-SHA-256, RFC 5869) and bound to their place, so that a row copied to another one does not open.
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  randomBytes,
  type KeyObject,
} from 'node:crypto'

export interface Vault {
  /** `context` says what it is and whose (`sealedAs`): it must be the same at `open`. Its first word picks the key. */
  seal(text: string, context: string): Buffer
  /** Throws where the bytes were sealed with another installation key, for another context, or have changed. */
  open(bytes: Buffer, context: string): string
  /** True where it opens with the key that seals now, and needs no older one. */
  isCurrent(bytes: Buffer, context: string): boolean
  /** A key for MACs: the same on every node, another one for every purpose, and the same after a rotation of the installation key. To be kept: with octets instead, a MAC costs six times as much. */
  macKey(purpose: string): KeyObject
}

/** Installation keys: the first one seals, all of them open. Asked anew when something does not open: another process may rotate them. */
export interface KeyRing {
  all(): readonly string[]
  /** Where they are kept; none where they are set as POSTHORN_SECRET_KEY. */
  readonly file?: string
  /** There is none yet, and `all` makes one. */
  readonly isMissing?: () => boolean
}

/** Sealed with a key that is not at hand, or for something else, or changed. */
export class DoesNotOpen extends Error {
  override readonly name = 'DoesNotOpen'
}

/** What each kind of secret is sealed as. `domain` in A-labels. */
export const sealedAs = {
  dkimKey: (workspace: string, domain: string): string => `dkim:${workspace}:${domain}`,
  route: (workspace: string): string => `route:${workspace}`,
  webhookSecret: (workspace: string): string => `webhook:${workspace}`,
  feed: (feed: string): string => `feed:${feed}`,
  totp: (user: string): string => `totp:${user}`,
  device: (): string => 'device:sign-in',
  macRoot: (): string => 'mac-root',
}

/** First octet of what is sealed: the way it was done, so that another way can come beside it. */
const format = 1
const nonceBytes = 12
const tagBytes = 16

/** `macRoot` is what the database keeps for it (store/mac-root.ts); without one, MACs hang on the key itself. */
export function makeVault(keys: string | KeyRing, macRoot?: string): Vault {
  const ring = typeof keys === 'string' ? { all: () => [keys] } : keys
  const derived = new Map<string, Buffer>()
  const keyFor = (secretKey: string, context: string): Buffer => {
    const purpose = context.split(':', 1)[0] ?? ''
    const name = `${purpose} ${secretKey}`
    const known = derived.get(name)
    if (known !== undefined) return known
    const key = Buffer.from(hkdfSync('sha256', secretKey, 'posthorn', `posthorn seal ${purpose}`, 32))
    derived.set(name, key)
    return key
  }
  const opened = (bytes: Buffer, context: string, secretKey: string): string | undefined => {
    const start = 1 + nonceBytes + tagBytes
    if (bytes[0] !== format || bytes.length < start) return undefined
    const nonce = bytes.subarray(1, 1 + nonceBytes)
    const key = keyFor(secretKey, context)
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(1 + nonceBytes, start))
    try {
      return decipher.update(bytes.subarray(start), undefined, 'utf8') + decipher.final('utf8')
    } catch {
      return undefined // sealed with another key, or changed
    }
  }
  const newest = (): string => {
    const [first] = ring.all()
    if (first === undefined) throw new Error('there is no installation key')
    return first
  }
  return {
    seal: (text, context) => {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', keyFor(newest(), context), nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(format), nonce, cipher.getAuthTag(), body])
    },
    open: (bytes, context) => {
      for (const secretKey of ring.all()) {
        const text = opened(bytes, context, secretKey)
        if (text !== undefined) return text
      }
      throw new DoesNotOpen(
        `What is sealed as ${context} does not open with this installation key (${ring.file ?? 'POSTHORN_SECRET_KEY'})`,
      )
    },
    isCurrent: (bytes, context) => opened(bytes, context, newest()) !== undefined,
    macKey: (purpose) =>
      createSecretKey(Buffer.from(hkdfSync('sha256', macRoot ?? newest(), 'posthorn', `posthorn mac ${purpose}`, 32))),
  }
}

/** So many random octets as base64url. It may stand on a command line: it never looks like an option. */
export function makePassword(octets: number): string {
  for (;;) {
    const text = randomBytes(octets).toString('base64url')
    if (!text.startsWith('-')) return text
  }
}

/** 256 random bits, with a beginning that leak scanners can find (decisions H). */
export function makeApiKey(): string {
  return `ph_${randomBytes(32).toString('base64url')}`
}

/** The form of a key that `makeApiKey` made: nothing else needs to be looked up. */
export function looksLikeApiKey(text: string): boolean {
  return text.length === 46 && text.startsWith('ph_')
}

/** How a random secret is kept. It has 256 bits, so it needs no slow hash. */
export function hashSecret(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
