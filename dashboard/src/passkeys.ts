// Passkeys (WebAuthn 3): the browser asks the device, the service asks the questions.
import { ask, isSilence } from './api.ts'
import { browserIn } from './browser.ts'

interface Question {
  readonly id: string
  readonly options: unknown
}

/** It changes nothing: where nobody answers, that is all there is to say (`useChange`). */
const question = (path: string, body?: object): Promise<Question> =>
  ask<Question>('POST', path, body).catch((cause: unknown) => {
    throw cause instanceof Error && isSilence(cause) ? new Error(cause.message, { cause }) : cause
  })

export function passkeysArePossible(): boolean {
  return (
    isSecureContext &&
    typeof PublicKeyCredential !== 'undefined' &&
    'parseCreationOptionsFromJSON' in PublicKeyCredential
  )
}

export async function makePasskey(password: string): Promise<unknown> {
  const { id, options } = await question('/api/v1/account/passkeys/options', { password })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as PublicKeyCredentialCreationOptionsJSON)
  const made = (await fromDevice(publicKey.rp.id, () =>
    navigator.credentials.create({ publicKey }),
  )) as PublicKeyCredential
  return ask('POST', '/api/v1/account/passkeys', {
    id,
    name: browserIn(navigator.userAgent).slice(0, 200),
    response: made.toJSON(),
  })
}

export async function signInWithPasskey(): Promise<unknown> {
  const { id, options } = await question('/api/v1/session/passkey/options')
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as PublicKeyCredentialRequestOptionsJSON)
  const found = (await fromDevice(publicKey.rpId, () =>
    navigator.credentials.get({ publicKey }),
  )) as PublicKeyCredential
  return ask('POST', '/api/v1/session/passkey', { id, response: found.toJSON() })
}

/** Browsers say why not in words for developers. Of a passkey that was called off, and one that took too long, they say the same. */
async function fromDevice(rpId: string | undefined, work: () => Promise<Credential | null>): Promise<Credential> {
  try {
    const credential = await work()
    if (credential !== null) return credential
  } catch (cause) {
    throw new Error(whyNot(cause, rpId), { cause })
  }
  throw new Error('The device gave no passkey.')
}

function whyNot(cause: unknown, rpId: string | undefined): string {
  const name = cause instanceof DOMException ? cause.name : ''
  if (name === 'InvalidStateError') return 'This device has a passkey for your account already.'
  if (name === 'SecurityError' && rpId !== undefined)
    return `Passkeys of this Posthorn are good at ${rpId} alone, the host of POSTHORN_PUBLIC_URL: open the dashboard there.`
  return 'The device gave no passkey: it was called off, or took too long.'
}
