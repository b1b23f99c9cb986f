// Passkeys (WebAuthn 3): the browser asks the device, the service asks the questions.
import { ask } from './api.ts'

interface Question {
  readonly id: string
  readonly options: unknown
}

export function passkeysArePossible(): boolean {
  return (
    isSecureContext &&
    typeof PublicKeyCredential !== 'undefined' &&
    'parseCreationOptionsFromJSON' in PublicKeyCredential
  )
}

export async function makePasskey(password: string): Promise<unknown> {
  const { id, options } = await ask<Question>('POST', '/api/v1/account/passkeys/options', { password })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as PublicKeyCredentialCreationOptionsJSON)
  const made = (await fromDevice(() => navigator.credentials.create({ publicKey }))) as PublicKeyCredential
  return ask('POST', '/api/v1/account/passkeys', { id, name: deviceName(), response: made.toJSON() })
}

export async function signInWithPasskey(): Promise<unknown> {
  const { id, options } = await ask<Question>('POST', '/api/v1/session/passkey/options')
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as PublicKeyCredentialRequestOptionsJSON)
  const found = (await fromDevice(() => navigator.credentials.get({ publicKey }))) as PublicKeyCredential
  return ask('POST', '/api/v1/session/passkey', { id, response: found.toJSON() })
}

/** Browsers say why not in words for developers. */
async function fromDevice(work: () => Promise<Credential | null>): Promise<Credential> {
  try {
    const credential = await work()
    if (credential !== null) return credential
  } catch (cause) {
    throw new Error('The device gave no passkey: it was called off, or took too long.', { cause })
  }
  throw new Error('The device gave no passkey.')
}

function deviceName(): string {
  return /Android|iPhone|iPad|Mac OS X|Windows|Linux/.exec(navigator.userAgent)?.[0] ?? 'Passkey'
}
