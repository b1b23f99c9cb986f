// Only what is surely wrong, or surely not meant, is said of somebody's SPF record; all else is left to the receivers.
import { expect, test } from 'vitest'
import { mayAllow, whyBadSpf } from './spf-rfc7208.ts'

const asking = (times: number) => Array.from({ length: times }, (_, at) => `include:${at}.example`).join(' ')

test.each([
  ['nothing', []],
  ['another text beside it', ['v=spf10 +all', 'v=spf1 mx -all']],
  ['an empty one', ['v=spf1']],
  ['modifiers behind "all"', ['v=spf1 ip4:192.0.2.1 -all exp=why.example']],
  ['ten questions, and names that only look like some', [`v=spf1 ${asking(10)} ip4:192.0.2.1 all.example=1 -all`]],
  ['a redirect beside "all", which nobody follows', [`v=spf1 ${asking(10)} redirect=a.example ~all`]],
])('nothing is wrong with %s', (_, texts) => {
  expect(whyBadSpf(texts)).toBeUndefined()
})

test.each([
  [['v=spf1 -all', 'V=SPF1 mx -all'], /Two SPF records/],
  [['v=spf1 +all'], /allows everybody/],
  [['v=spf1 mx all'], /allows everybody/],
  [['v=spf1 -all include:a.example'], /behind "all"/],
  [[`v=spf1 ${asking(11)} -all`], /more than 10 times/],
  [[`v=spf1 a mx/24 ~exists:a.example ${asking(7)} redirect=b.example`], /more than 10 times/],
  [['v=spf1 ?ptr -all'], /"ptr"/],
])('%j is said to be wrong', (texts, words) => {
  expect(whyBadSpf(texts)).toMatch(words)
})

test.each([
  ['v=spf1 a:node.test -all', true],
  ['v=spf1 +A:Node.Test -all', true],
  ['v=spf1 mx -all', true],
  ['v=spf1 ip4:192.0.2.1 -all', true],
  ['v=spf1 redirect=other.example', true],
  ['v=spf1 -all', false],
  ['v=spf1 a:other.test/24 -all', true],
  ['v=spf1 -a:node.test -ip4:192.0.2.1 ?include:a.example', false],
])('whether %s may allow us', (text, may) => {
  expect(mayAllow(['hello', text])).toBe(may)
})
