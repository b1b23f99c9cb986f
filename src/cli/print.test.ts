// What strangers wrote, on an operator's terminal.
import { expect, test } from 'vitest'
import { makePrinter, sentenceOf, table } from './print.ts'

test.each([true, false])('no text of a stranger moves the cursor (as JSON: %s)', (json) => {
  let out = ''
  const said = '550 \u001b[2J\u009b2J\u007f\u0085 no'
  makePrinter(json, (text) => (out += text)).show({ said }, () => table(['SAID'], [[said]], ''))
  expect(out).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/)
  if (json) expect(JSON.parse(out)).toEqual({ said })
})

test('whatever a command says, and in whatever way it fails: lines stay lines, and no text turns the reading direction for what follows', () => {
  const said = 'mx\u001b[2J.example\t\u202emoc.elpmaxe\u2066 and\nmore\r'
  const tamed = 'mx [2J.example\t moc.elpmaxe  and\nmore '
  let out = ''
  makePrinter(false, (text) => (out += text)).show({}, () => said)
  expect(out).toBe(`${tamed}\n`)
  expect(sentenceOf(new Error(said, { cause: new Error(said) }))).toBe(`${tamed}: ${tamed}`)
  out = ''
  makePrinter(true, (text) => (out += text)).show({ said }, () => '')
  expect(out).not.toMatch(/[\u202e\u2066]/)
  expect(JSON.parse(out)).toEqual({ said })
})
