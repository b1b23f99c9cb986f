import { expect, test } from 'vitest'
import { dkimRecord } from './dkim.ts'
import { dkimAdvice, whyNotDkim } from './dkim-key-record.ts'

const key = `MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A${'MIIBCgKCAQEA'.repeat(30)}IDAQAB`
const record = dkimRecord(key)

test.each([
  ['as it is shown', record],
  ['without version and type', `p=${key}`],
  ['with blanks within the key, which RFC 6376 3.2 lets stand', `v=DKIM1; p=${key.slice(0, 90)} ${key.slice(90)}`],
  ['for mail among others', `${record}; s=other:email`],
])('a record that receivers take is right: %s', (_name, text) => expect(whyNotDkim([text], key)).toBeUndefined())

test.each([
  ['whole in quotation marks of its own', `"${record}"`, /quotation marks/],
  ['in the strings of a zone file', `"${record.slice(0, 250)}" "${record.slice(250)}"`, /quotation marks/],
  ['with the key in quotation marks', `v=DKIM1; k=rsa; p="${key}"`, /quotation marks/],
  ['for another service', `${record}; s=tlsrpt`, /"s="/],
])('a record that no receiver can read is not right: %s', (_name, text, why) =>
  expect(whyNotDkim([text], key)).toMatch(why),
)

test('a version that is not the first tag works at most receivers, and its owner is told of the others', () => {
  const turned = `k=rsa; p=${key}; v=DKIM1`
  expect(whyNotDkim([turned], key)).toBeUndefined()
  expect(dkimAdvice([turned])).toMatch(/before "v="/)
  expect(dkimAdvice([record])).toBeUndefined()
  expect(dkimAdvice([`p=${key}`])).toBeUndefined()
})

test('an Ed25519 key is right where the record says so, and not where it says or leaves out what means RSA', () => {
  const [edwards, why] = ['A'.repeat(43) + '=', (text: string) => whyNotDkim([text], edwards, 'ed25519-sha256')]
  expect(why(dkimRecord(edwards, 'ed25519-sha256'))).toBeUndefined()
  expect(why(`v=DKIM1; k=rsa; p=${edwards}`)).toMatch(/k=rsa; the key is k=ed25519/)
  expect(why(`v=DKIM1; p=${edwards}`)).toMatch(/no k=, which means rsa; the key is k=ed25519/)
})
