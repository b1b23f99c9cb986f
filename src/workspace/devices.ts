// Browsers in which somebody has signed in, or chosen a password, before: their guesses are counted apart, so that strangers who guess keep nobody out
// (OWASP's device cookies).
import { randomUUIDv7 } from 'node:crypto'
import { hashSecret, sealedAs, type Vault } from '../base/secret.ts'
import type { UserRow } from '../store/people.ts'

/** What somebody has proved on a device: all that a sign-in asks for, or that the password is theirs to choose. */
type DeviceProof = 'signed_in' | 'chose_password'

/** For such a device; a new password makes it worthless. */
export function makeDevice(vault: Vault, user: UserRow, proof: DeviceProof): string {
  const text = `${user.id} ${stamp(user)} ${randomUUIDv7()}${proof === 'chose_password' ? ' chose_password' : ''}`
  return vault.seal(text, sealedAs.device()).toString('base64url')
}

export interface KnownDevice {
  readonly proof: DeviceProof
  /** By what is in it, whatever it is written like: Base64 has many ways to write the same octets, and each would be a device that has guessed nothing. */
  readonly name: string
}

/** Undefined where it is none of this person, or the password is another by now. */
export function knownDevice(vault: Vault, device: string, user: UserRow): KnownDevice | undefined {
  if (device.length > 400) return undefined
  try {
    const text = vault.open(Buffer.from(device, 'base64url'), sealedAs.device())
    if (!text.startsWith(`${user.id} ${stamp(user)} `)) return undefined
    return { proof: text.endsWith(' chose_password') ? 'chose_password' : 'signed_in', name: `device ${text}` }
  } catch {
    return undefined
  }
}

const stamp = (user: UserRow): string =>
  hashSecret(user.passwordHash ?? '')
    .toString('base64url')
    .slice(0, 12)
