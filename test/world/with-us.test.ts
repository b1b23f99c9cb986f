import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const withUs = fileURLToPath(new URL('with-us.ts', import.meta.url))
const starts = (call: string) => `
  import { spawn } from 'node:child_process'
  import { wholeWithUs, withUs } from '${withUs}'
  spawn(...${call}, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] })`

const asRoot = process.getuid?.() === 0
const sleeps = `'/bin/sh', ['-c', 'echo started; exec sleep 600']`
test.each([
  ['', `withUs(${sleeps})`],
  ...(asRoot
    ? [
        // As the clusters of tests do.
        [' as another user', `withUs(${sleeps}, ['--reuid', 'nobody', '--clear-groups'])`],
        // As mail servers do, the first of which gives up rights.
        [
          ', with what has left it,',
          `wholeWithUs('/usr/bin/setpriv', ['--reuid', 'nobody', '--clear-groups', '/bin/sh', '-c', 'setsid sleep 600 & echo started; exec sleep 600'])`,
        ],
      ]
    : []),
])(
  'what a test starts%s ends with it, though it is killed and the other has a group of its own',
  async (_, call) => {
    const us = spawn(process.execPath, ['--input-type=module', '--eval', starts(call)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = (await once(createInterface(us.stdout), 'line')) as [string]
    expect(said).toBe('started')
    // All have that pipe: it ends with the last of them.
    const ended = once(us.stdout, 'close')
    us.kill('SIGKILL')
    await ended
  },
  30_000,
)
