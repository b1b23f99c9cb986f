// Somebody guesses at an account, and its person chooses a new password: the strangers must not keep her out, nor get more guesses by it.
import { Secret, TOTP } from 'otpauth'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { limits } from '../config.ts'
import { officeWorld, tokenOf, type OfficeWorld } from './office.test-kit.ts'

const office = await officeWorld()
afterEach(() => office.world.db.run('delete from sign_in_guesses'))

type Browser = ReturnType<OfficeWorld['browser']>
const enter = async (browser: Browser, email: string, password: string, code?: string) => {
  const answer = await browser.ask('POST', '/session', { body: { email, password, ...(code && { code }) } })
  return answer.statusCode === 200 ? 'in' : answer.json<{ code?: string }>().code
}
const reset = async (browser: Browser, email: string, password: string) => {
  const many = office.sent.length
  await browser.ask('POST', '/password-resets', { body: { email } })
  const body = { token: tokenOf(await office.mail(many + 1)), password }
  expect((await browser.ask('POST', '/password-resets/confirm', { body })).statusCode).toBe(204)
}

test('whoever has set a new password by the link gets in there while strangers go on guessing, and nobody else', async () => {
  const { email, password } = await office.login()
  const [home, elsewhere] = [office.browser(), office.browser()]
  for (const each of [home, elsewhere]) expect(await enter(each, email, password)).toBe('in')
  await enter(office.browser(), email, 'a wrong one')
  await office.world.db.run('update sign_in_guesses set count = 1000000, at = app_now()')
  await reset(home, email, 'four new words here')
  expect(await enter(elsewhere, email, 'four new words here')).toBe('too_many_attempts')
  expect(await enter(office.browser(), email, 'four new words here')).toBe('too_many_attempts')
  expect(await enter(home, email, 'four new words here')).toBe('in')
})

test('whoever can read the mail gets no more guesses at the code by setting one password after the other', async () => {
  const shop = await office.sender()
  const browser = await office.signedIn('owner', shop.workspaceId)
  const { email, password } = browser.login
  const begun = await browser.ask('POST', '/account/two-factor', { body: { password } })
  const totp = new TOTP({ secret: Secret.fromBase32(begun.json<{ secret: string }>().secret) })
  // The clock stands, or a code of the step before could be two steps back by the time that it is looked at.
  const now = Date.now()
  await office.world.setClock(new Date(now).toISOString())
  onTestFinished(() => office.world.setClock())
  const code = (steps: number) => totp.generate({ timestamp: now + steps * 30_000 })
  await browser.ask('POST', '/account/two-factor/confirm', { body: { code: code(-1) } })
  const thief = office.browser()
  await reset(thief, email, 'four new words here')
  for (let guesses = 0; guesses <= limits.codeGuessesMax; guesses++)
    expect(await enter(thief, email, 'four new words here', 'abcdef')).toBe('wrong_credentials')
  expect(await enter(thief, email, 'four new words here', code(0))).toBe('too_many_attempts')
  await reset(thief, email, 'four other words here')
  expect(await enter(thief, email, 'four other words here', code(0))).toBe('too_many_attempts')
}, 180_000)
