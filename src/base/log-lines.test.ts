// The service is two processes with one standard error, and whoever reads it may be slow.
import { execFile, spawn } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'

const logLines = fileURLToPath(new URL('./log-lines.ts', import.meta.url))

/** Each line is of one letter, 300 times. */
const writer = (letter: string) => `
  import { lines } from ${JSON.stringify(logLines)}
  import { setTimeout as wait } from 'node:timers/promises'
  for (let many = 0; many < 40; many++, await wait(5)) {
    for (let line = 0; line < 25; line++) lines(2).write('${letter}'.repeat(300) + '\\n')
    lines(2).flush()
  }`

test('lines of two processes stay whole where nobody reads as fast as they write', async () => {
  const folder = temporaryFolder()
  const pipe = join(folder, 'pipe')
  await promisify(execFile)('mkfifo', [pipe])
  const end = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK)
  const others = openSync(pipe, constants.O_WRONLY)
  for (const letter of ['a', 'b'])
    spawn(process.execPath, ['--input-type=module', '--eval', writer(letter)], { stdio: ['ignore', 'ignore', others] })
  closeSync(others)
  const piece = Buffer.alloc(1_000)
  let said = ''
  for (let octets = 1; octets > 0; await wait(1)) {
    try {
      octets = readSync(end, piece)
      said += piece.toString('utf8', 0, octets)
    } catch (error) {
      expect(error).toMatchObject({ code: 'EAGAIN' })
    }
  }
  closeSync(end)
  const lines = said.split('\n')
  expect(lines.length).toBe(2_001)
  expect(lines.filter((line) => !/^(?:a{300}|b{300})?$/.test(line))).toEqual([])
})
