// Passkeys in a real browser: the ceremonies of WebAuthn with Chromium's own virtual authenticator (CDP), which keeps keys and signs as a
// device does, over the whole binary. What a thief could do with an answer that was heard, or with a page of their own, is tried too.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { CDPSession, Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { startBrowser } from '../world/browser.ts'
import { heading, press, signIn, startVisit, type Login, type Visit } from './visit.ts'

/** A laptop's own: it keeps its keys, and knows its person. */
const options = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const

let visit: Visit
let login: Login
let page: Page
let cdp: CDPSession
let authenticatorId: string

beforeAll(async () => {
  visit = await startVisit()
  const shop = await visit.posthorn.workspace({ name: 'Shop' })
  login = await visit.makeLogin('ann@people.example', shop.id, 'developer')
  page = await visit.browser.person()
  cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  ;({ authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options }))
  await signIn(page, visit.origin, login)
  await heading(page, 'Overview')
}, 360_000)

const go = (path: string) => page.goto(`${visit.origin}${path}`)
const kept = async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials
async function signOut(): Promise<void> {
  await press(page, login.email)
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await heading(page, 'Sign in')
}

/** What the page sends when somebody signs in with a passkey; the request itself goes on. */
async function heardSignIn(): Promise<{ readonly id: string; readonly response: object }> {
  const asked = page.waitForRequest((request) => request.url().endsWith('/api/v1/session/passkey'))
  await press(page, 'Sign in with a passkey')
  return (await asked).postDataJSON() as { id: string; response: object }
}

/** A thief with a client of their own, who says what the dashboard would say. */
const say = async (
  path: string,
  body?: object,
): Promise<{ readonly status: number; readonly body: { id: string } }> => {
  const answer = await fetch(`${visit.origin}/api/v1${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-posthorn-csrf': '1', origin: visit.origin },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: (await answer.json()) as { id: string } }
}

describe('a passkey', () => {
  test('is made after another look at the password, and the device keeps it for this installation alone', async () => {
    await go('/account')
    await press(page, 'Add a passkey…')
    await page.getByRole('dialog').getByLabel('Password').fill('not the password')
    await press(page, 'Go on')
    await page.getByRole('dialog').getByRole('alert').waitFor()
    expect(await kept()).toEqual([])
    await page.getByRole('dialog').getByLabel('Password').fill(login.password)
    // Where nobody answers the question nothing was done, and nobody is sent to look.
    await page.route('**/passkeys/options', (route) => route.abort())
    await press(page, 'Go on')
    await page.getByRole('dialog').getByText('Posthorn cannot be reached at the moment.', { exact: true }).waitFor()
    await page.unrouteAll({ behavior: 'wait' })
    await press(page, 'Go on')
    await page.getByRole('region', { name: 'Passkeys' }).getByRole('listitem').waitFor()
    expect(await kept()).toEqual([expect.objectContaining({ rpId: 'localhost', isResidentCredential: true })])
    await page.getByRole('button', { name: 'Remove Chrome on Linux' }).waitFor()
    // A device keeps one of them, and says so.
    await press(page, 'Add a passkey…')
    await page.getByRole('dialog').getByLabel('Password').fill(login.password)
    await press(page, 'Go on')
    await page.getByRole('dialog').getByText('has a passkey for your account already').waitFor()
    await page.keyboard.press('Escape')
  })

  test('belongs to one host, and who asks for it at another is told at which', async () => {
    const browser = await startBrowser(visit.posthorn.url)
    const stranger = await browser.person()
    await stranger.goto(`${visit.posthorn.url}/sign-in`)
    await press(stranger, 'Sign in with a passkey')
    await stranger.getByRole('alert').getByText('good at localhost alone').waitFor()
    await browser.close()
  })

  test('signs in without a name and a password', async () => {
    await signOut()
    await press(page, 'Sign in with a passkey')
    await heading(page, 'Overview')
    expect((await kept())[0]?.signCount).toBeGreaterThan(1)
  })

  test('is not asked of somebody whose device does not know them', async () => {
    await signOut()
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    await press(page, 'Sign in with a passkey')
    await page.getByRole('alert').waitFor()
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
    await press(page, 'Sign in with a passkey')
    await heading(page, 'Overview')
  })

  test('answers once: what was heard on the way is refused, to the old question and to a new one', async () => {
    await signOut()
    const heard = await heardSignIn()
    await heading(page, 'Overview')
    expect((await say('/session/passkey', heard)).status).toBe(401)
    const { body: fresh } = await say('/session/passkey/options')
    expect((await say('/session/passkey', { id: fresh.id, response: heard.response })).status).toBe(401)
    // An answer to nobody's question.
    expect((await say('/session/passkey', { ...heard, id: '0199f1c2-0000-7000-8000-00000000dead' })).status).toBe(401)
  })

  test('answers to our own pages alone: signed on another origin, it is refused', async () => {
    // The same host at another port: a browser lets such a page ask the device for our key, so the service must look at the origin itself.
    const other = createServer((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Elsewhere</title>'),
    )
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const somewhere = await page.context().newPage()
    try {
      const device = await somewhere.context().newCDPSession(somewhere)
      await device.send('WebAuthn.enable')
      const { authenticatorId: second } = await device.send('WebAuthn.addVirtualAuthenticator', { options })
      const [credential] = await kept()
      if (credential === undefined) throw new Error('the device has no passkey')
      await device.send('WebAuthn.addCredential', { authenticatorId: second, credential })
      const signedAt = async (url: string) => {
        await somewhere.goto(url)
        const { body } = await say('/session/passkey/options')
        const question = JSON.stringify((body as unknown as { options: object }).options)
        const response = await somewhere.evaluate<object>(
          `navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(${question}) }).then((found) => found.toJSON())`,
        )
        return say('/session/passkey', { id: body.id, response })
      }
      expect((await signedAt(`http://localhost:${(other.address() as AddressInfo).port}/`)).status).toBe(401)
      // All else was right: from one of our own pages the same device is let in.
      expect((await signedAt(`${visit.origin}/sign-in`)).status).toBe(200)
    } finally {
      await somewhere.close()
      other.close()
      other.closeAllConnections()
    }
  })

  test('is refused when its counter goes backwards: there are two of it', async () => {
    await signOut()
    const [credential] = await kept()
    if (credential === undefined) throw new Error('the device has no passkey')
    await cdp.send('WebAuthn.removeCredential', { authenticatorId, credentialId: credential.credentialId })
    await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential, signCount: 0 } })
    await press(page, 'Sign in with a passkey')
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(/does not fit/)
    await cdp.send('WebAuthn.removeCredential', { authenticatorId, credentialId: credential.credentialId })
    await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential, signCount: 1_000 } })
    await press(page, 'Sign in with a passkey')
    await heading(page, 'Overview')
  })

  test('signs in no more once it is removed, though the device still has it', async () => {
    await go('/account')
    const passkeys = page.getByRole('region', { name: 'Passkeys' })
    await passkeys.getByRole('button', { name: /^Remove/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await passkeys.getByRole('listitem').waitFor({ state: 'detached' })
    await signOut()
    expect(await kept()).toHaveLength(1)
    await press(page, 'Sign in with a passkey')
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(/does not fit/)
    await signIn(page, visit.origin, login)
    await heading(page, 'Overview')
  })
})
