// The installation key and what it seals; API keys and how they are kept. Sealed texts (DKIM keys, relay passwords) are AES-256-GCM
// under a key of their purpose (HKDF-SHA-256, RFC 5869) and bound to their place, so that a row copied to another one does not open.
import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import {
  closeSync,
  fchownSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Settings } from '../config.ts'

export interface Vault {
  /** `context` says what it is and whose (`sealedAs`): it must be the same at `open`. Its first word picks the key. */
  seal(text: string, context: string): Buffer
  /** Throws where the bytes were sealed with another installation key, for another context, or have changed. */
  open(bytes: Buffer, context: string): string
  /** A key for MACs, derived from the installation key: the same on every node, another one for every purpose. */
  macKey(purpose: string): Buffer
}

/** What each kind of secret is sealed as. `domain` in A-labels. */
export const sealedAs = {
  dkimKey: (workspace: string, domain: string): string => `dkim:${workspace}:${domain}`,
  route: (workspace: string): string => `route:${workspace}`,
  webhookSecret: (workspace: string): string => `webhook:${workspace}`,
  feed: (feed: string): string => `feed:${feed}`,
  totp: (user: string): string => `totp:${user}`,
  device: (): string => 'device:sign-in',
}

/** First octet of what is sealed: the way it was done, so that another way can come beside it. */
const format = 1
const nonceBytes = 12
const tagBytes = 16

export function makeVault(secretKey: string): Vault {
  const keys = new Map<string, Buffer>()
  const keyFor = (context: string): Buffer => {
    const purpose = context.split(':', 1)[0] ?? ''
    const known = keys.get(purpose)
    if (known !== undefined) return known
    const key = Buffer.from(hkdfSync('sha256', secretKey, 'posthorn', `posthorn seal ${purpose}`, 32))
    keys.set(purpose, key)
    return key
  }
  return {
    seal: (text, context) => {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', keyFor(context), nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(format), nonce, cipher.getAuthTag(), body])
    },
    open: (bytes, context) => {
      const start = 1 + nonceBytes + tagBytes
      try {
        if (bytes[0] !== format || bytes.length < start) throw new Error('not a sealed text')
        const decipher = createDecipheriv('aes-256-gcm', keyFor(context), bytes.subarray(1, 1 + nonceBytes), {
          authTagLength: tagBytes,
        })
        decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(1 + nonceBytes, start))
        return decipher.update(bytes.subarray(start), undefined, 'utf8') + decipher.final('utf8')
      } catch (error) {
        throw new Error(`What is sealed as ${context} does not open with this installation key (POSTHORN_SECRET_KEY)`, {
          cause: error,
        })
      }
    },
    macKey: (purpose) => Buffer.from(hkdfSync('sha256', secretKey, 'posthorn', `posthorn mac ${purpose}`, 32)),
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

/** The key as set, or the one in the data folder, which is made where it is missing. Every process of an installation gets the same. */
export function installationKey(settings: Pick<Settings, 'POSTHORN_SECRET_KEY' | 'POSTHORN_DATA_DIR'>): string {
  if (settings.POSTHORN_SECRET_KEY !== undefined) return settings.POSTHORN_SECRET_KEY
  const path = join(settings.POSTHORN_DATA_DIR, 'secret-key')
  const key = readIfThere(path) ?? makeKeyFile(settings.POSTHORN_DATA_DIR, path)
  if (key.length < 32) throw new Error(`${path} holds no installation key: put the one from your backup there`)
  return key
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Whole and on disk before it has its name; of two that start together, the first link wins and both read it. */
function makeKeyFile(folder: string, path: string): string {
  // The same rights as store/embedded-place.ts gives: as root, PostgreSQL's user passes through the folder.
  mkdirSync(folder, { recursive: true, mode: isRoot() ? 0o711 : 0o700 })
  const draft = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`
  try {
    writeDurably(draft, `${randomBytes(32).toString('base64url')}\n`, statSync(folder))
    linkSync(draft, path)
    syncFolder(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
  return readFileSync(path, 'utf8').trim()
}

const isRoot = (): boolean => process.getuid?.() === 0

/** The folder's owner may run it next time without root. */
function writeDurably(path: string, text: string, owner: { readonly uid: number; readonly gid: number }): void {
  const file = openSync(path, 'wx', 0o600)
  try {
    writeSync(file, text)
    if (isRoot()) fchownSync(file, owner.uid, owner.gid)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** A key that seals rows must not be lost with a name that never reached the disk. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
