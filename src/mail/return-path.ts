// The signed return path (decisions C): every message's envelope sender is a token that names the message and proves, by an HMAC over
// message and workspace, that we wrote it. `b`, the key's letter, 26 base32 characters of the message id, 16 of an 80-bit HMAC: 44
// octets, lower case; servers on the way may change the case. It never tells the recipient's address.
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto'

/** Where bounces of a domain's mail come back to: a subdomain of its own, so that the SPF record of the domain itself is not touched. */
export const returnPathName = (domain: string): string => `bounces.${domain}`

/** Keys of return paths are named by one letter. */
export interface ReturnPathKey {
  readonly id: string
  readonly secret: KeyObject
}

/** A token as it was read: what it says, not yet whether that is true. */
export interface ReadToken {
  readonly keyId: string
  /** A UUID in lower case. */
  readonly messageId: string
  readonly mac: Buffer
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
const tokenForm = /^b[a-z][a-z2-7]{42}$/
const idCharacters = 26
const macBytes = 10

export function makeToken(key: ReturnPathKey, messageId: string, workspaceId: string): string {
  const id = uuidBytes(messageId)
  return `b${key.id}${base32(id)}${base32(macOf(key.secret, id, workspaceId))}`
}

/** Undefined where the text is no token in any case. */
export function readToken(text: string): ReadToken | undefined {
  if (text.length !== 44) return undefined
  const token = text.toLowerCase()
  if (!tokenForm.test(token)) return undefined
  const id = fromBase32(token.slice(2, 2 + idCharacters), 16)
  const mac = fromBase32(token.slice(2 + idCharacters), macBytes)
  if (id === undefined || mac === undefined) return undefined
  const hex = id.toString('hex')
  const messageId = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  return { keyId: token[1] as string, messageId, mac }
}

/** Whether we wrote it, for a message of this workspace. In constant time. */
export function isGenuine(token: ReadToken, key: ReturnPathKey, workspaceId: string): boolean {
  return timingSafeEqual(token.mac, macOf(key.secret, uuidBytes(token.messageId), workspaceId))
}

function macOf(secret: KeyObject, id: Buffer, workspaceId: string): Buffer {
  return createHmac('sha256', secret).update(id).update(uuidBytes(workspaceId)).digest().subarray(0, macBytes)
}

function uuidBytes(uuid: string): Buffer {
  const bytes = Buffer.from(uuid.replaceAll('-', ''), 'hex')
  if (bytes.length !== 16) throw new Error('a return path needs UUIDs')
  return bytes
}

/** RFC 4648 6, without padding, in lower case. */
function base32(bytes: Buffer): string {
  let text = ''
  let held = 0
  let bits = 0
  for (const byte of bytes) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += alphabet[(held >> bits) & 31]
    }
    held &= (1 << bits) - 1
  }
  return bits === 0 ? text : text + alphabet[(held << (5 - bits)) & 31]
}

/** Undefined where bits are left over that are not zero: one token has one spelling, but for its case. */
function fromBase32(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length)
  let at = 0
  let held = 0
  let bits = 0
  for (const character of text) {
    held = (held << 5) | alphabet.indexOf(character)
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[at++] = held >> bits
      held &= (1 << bits) - 1
    }
  }
  return held === 0 && at === length ? bytes : undefined
}
