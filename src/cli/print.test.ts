// What strangers wrote, on an operator's terminal.
import { expect, test } from 'vitest'
import { makePrinter, table } from './print.ts'

test.each([true, false])('no text of a stranger moves the cursor (as JSON: %s)', (json) => {
  let out = ''
  const said = '550 \u001b[2J\u009b2J\u007f\u0085 no'
  makePrinter(json, (text) => (out += text)).show({ said }, () => table(['SAID'], [[said]], ''))
  expect(out).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/)
  if (json) expect(JSON.parse(out)).toEqual({ said })
})
