import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { progress } from './progress.ts'

const terminal = (isTTY: boolean) => {
  const said: string[] = []
  return { isTTY, said, write: (text: string) => said.push(text) }
}

test('who waits at a terminal hears every few seconds how far it is, and never more often', () => {
  const at = terminal(true)
  let now = 0
  const tell = progress({ json: false }, at, () => now)
  for (; now <= 3 * limits.progressMs; now += 100) tell(() => `${now} rows so far`)
  expect(at.said).toEqual([1, 2, 3].map((turn) => `posthorn: ${turn * limits.progressMs} rows so far\n`))
})

test('a log, the mail of cron and whoever reads JSON hear nothing', () => {
  for (const [json, isTTY] of [
    [false, false],
    [true, true],
  ] as const) {
    const at = terminal(isTTY)
    let now = 0
    const tell = progress({ json }, at, () => now)
    now = 2 * limits.progressMs
    tell(() => 'never')
    expect(at.said).toEqual([])
  }
})
