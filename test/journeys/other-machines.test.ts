// Machines that are set up otherwise than ours: what they have of Node and npm, and what they say of both, ends in an installation that works or in one
// sentence that names the way out.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'posthorn-other-machines-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What is there before anything is installed, and an npm that writes down how it is called and lays nothing there. */
function checkoutOf(name: string) {
  const checkout = join(folder, name)
  mkdirSync(join(checkout, 'tools'), { recursive: true })
  for (const file of ['bin', 'package.json', 'package-lock.json'])
    cpSync(join(root, file), join(checkout, file), { recursive: true })
  return checkout
}

function run(checkout: string, program: string, env: NodeJS.ProcessEnv) {
  const path = `${join(checkout, 'tools')}:${process.env['PATH']}`
  const { status, stderr } = spawnSync(join(checkout, program), ['serve'], {
    cwd: '/',
    env: { PATH: path, ...env },
    encoding: 'utf8',
  })
  return { status, stderr }
}

test('a Node 24 that is older than the code needs is told apart from one that is new enough', () => {
  const checkout = checkoutOf('old-node')
  writeFileSync(join(checkout, 'tools/npm'), '#!/bin/sh\n', { mode: 0o755 }) // it brings none, as on macOS
  const old = join(checkout, 'old.cjs')
  writeFileSync(old, "delete require('crypto').randomUUIDv7; require('module').syncBuiltinESMExports()\n")
  const PATH = `${join(checkout, 'tools')}:${join(process.execPath, '..')}:/usr/bin:/bin`
  const env = { PATH, NODE_OPTIONS: `--require ${old}` }
  const words = expect.stringContaining('24.16 or newer') as string
  expect(run(checkout, 'bin/posthorn', env)).toEqual({ status: 1, stderr: words })
  const { status, stderr } = run(checkout, 'bin/node', env)
  expect({ status, stderr }).toEqual({ status: 1, stderr: words })
  expect(stderr).toContain(process.version)
})
