import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const withUs = fileURLToPath(new URL('with-us.ts', import.meta.url))
const starts = (as: readonly string[]) => `
  import { spawn } from 'node:child_process'
  import { withUs } from '${withUs}'
  const node = spawn(...withUs('/bin/sh', ['-c', 'exec sleep 600'], ${JSON.stringify(as)}), { detached: true, stdio: ['ignore', 'inherit', 'inherit'] })
  node.once('spawn', () => console.log('started'))`

test.each([
  ['', []],
  // As the clusters of tests do where they run as root.
  ...(process.getuid?.() === 0 ? [[' of another user', ['--reuid', 'nobody', '--clear-groups']] as const] : []),
] as const)(
  'what a test starts%s ends with it, though it is killed and the other has a group of its own',
  async (_, as) => {
    const us = spawn(process.execPath, ['--input-type=module', '--eval', starts(as)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = (await once(createInterface(us.stdout), 'line')) as [string]
    expect(said).toBe('started')
    // Both have that pipe: it ends with the last of them.
    const ended = once(us.stdout, 'close')
    us.kill('SIGKILL')
    await ended
  },
  30_000,
)
