// What a DMARC record does to the mail of a domain, and what its owner may not mean by it.
import { expect, test } from 'vitest'
import { readDmarc } from './dmarc-rfc9989.ts'

const domain = 'news.example.org'
const read = (texts: readonly string[], at = domain) => readDmarc(texts, domain, `_dmarc.${at}`)
const above = 'example.org'

test('what is no DMARC record is none', () => {
  expect(read(['hello', 'v=DMARC10; p=reject', 'v=dmarc1; p=reject'])).toBeUndefined()
})

test.each<[string, string, boolean, RegExp]>([
  ['v=DMARC1; p=Reject; rua=mailto:a@example.org', domain, true, /^p=reject: receivers refuse mail that fails\.$/],
  ['v=DMARC1;p=quarantine', domain, true, /spam folder\. It asks for no reports/],
  ['v=DMARC1; p=reject; pct=100', domain, true, /no reports.*learn who sends in your name\.$/],
  // RFC 9989 has removed it: whoever counts on pct=0 must not be told that nothing is refused.
  ['v=DMARC1; p=reject; pct=0', domain, true, /To older receivers it holds for 0 % .*others act so with all of it/],
  // In its place there is a test, one level milder.
  ['v=DMARC1; p=reject; t=y', domain, true, /^p=reject.* But t=y .* act as by p=quarantine\./],
  ['v=DMARC1; p=reject; sp=quarantine; t=Y', above, true, /^p=quarantine.* But t=y .* act as by p=none\./],
  ['v=DMARC1; p=none; t=y; rua=mailto:a@example.org', domain, true, /^p=none: [^(]*reject\.$/],
  ['v=DMARC1; p=reject; t=n; rua=mailto:a@example.org', domain, true, /^p=reject: receivers refuse mail that fails\.$/],
  ['v=DMARC1; p=reject; aspf=s', domain, true, /strict for SPF/],
  // Its own record speaks for it, whatever it says of those below.
  ['v=DMARC1; p=none; sp=reject; adkim=s; rua=mailto:a@example.org', domain, true, /^p=none: [^(]*reject\.$/],
  [
    'v=DMARC1; p=none; sp=reject',
    above,
    true,
    /^p=reject: .*record of example\.org, which holds for the domains below/,
  ],
  ['v=DMARC1; p=reject; adkim=S; aspf=R', above, true, /strict for DKIM.*passes\.$/],
  ['v=DMARC1; p', domain, false, /cannot be read/],
  ['v=DMARC1', domain, false, /no policy/],
  // One that cannot be read spoils the others: receivers do not refuse anything here.
  ['v=DMARC1; p=reject; sp=monitor', domain, false, /no policy: sp must be/],
  ['v=DMARC1; p=reject; np=no; rua=mailto:a@example.org', domain, true, /take it for p=none: np must be/],
  ['v=DMARC1; sp=reject; rua=mailto:a@example.org', above, true, /take it for p=none: p must be/],
  ['v=DMARC1; p=reject; sp=none; np=reject', domain, true, /^p=reject: receivers refuse/],
])('%s at %s', (text, at, works, words) => {
  expect(read([text], at)).toEqual({ works, words: expect.stringMatching(words) as string })
})
