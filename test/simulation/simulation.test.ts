// A short run of the simulation (npm run simulate has the long one), and its proof that it is not blind: every mutation that the model checker named
// must make it fail. It runs in a process of its own, because it replaces the clock and the network there.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { mutations } from './mutations.ts'

const script = fileURLToPath(new URL('simulate.ts', import.meta.url))

/** What it said, whether it found a breach or not. */
async function simulate(...args: readonly string[]): Promise<string> {
  return promisify(execFile)(process.execPath, [script, ...args]).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`,
  )
}

// Another seed each day: the command that replays a failure stands in the output.
const seed = String(Math.floor(Date.now() / 86_400_000) * 10_000)

test('many schedules of crashes, pauses and lost commits: no message has two dots, none is lost', async () => {
  const said = await simulate('--schedules', '1500', '--seed', seed)
  expect(said).toMatch(/^1500 schedules, \d+ final dots, \d+ kills/)
  expect(said).not.toMatch(/BREACH|Error/)
}, 360_000)

test('every mutation of the protocol is seen to fail', async () => {
  const said = await simulate('--mutations', '--schedules', '4000', '--seed', '1')
  expect(
    said.match(/^(?:MISSED|caught) .*$/gm)?.filter((line) => !line.startsWith('caught')),
    said,
  ).toEqual([])
  expect(said.match(/^caught /gm)).toHaveLength(Object.keys(mutations).length)
}, 540_000)

test('a seed replays: the same schedule ends the same, event by event', async () => {
  const once = () => simulate('--schedules', '1', '--seed', '7')
  const [one, other] = await Promise.all([once(), once()])
  const told = (said: string) => said.split('\n').filter((line) => line.includes(' ms '))
  expect(told(one).length).toBeGreaterThan(50)
  expect(told(other)).toEqual(told(one))
}, 180_000)
