// How many files this process may have open, for tests of what it does where none is left.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export interface AllowedFiles {
  /** Nothing: as many as ever. */
  allow(most: string): Promise<void>
  end(): Promise<void>
}

/** Made before: a shell that is there already sets the limit, since none could be started. */
export function allowedFiles(): AllowedFiles {
  const command = `while read -r most; do prlimit --pid ${process.pid} --nofile="\${most:-$(ulimit -n)}:" && echo done; done`
  const shell = spawn('/bin/sh', ['-c', command], { stdio: ['pipe', 'pipe', 'inherit'] })
  return {
    allow: async (most) => {
      shell.stdin.write(`${most}\n`)
      await once(shell.stdout, 'data')
    },
    end: async () => {
      shell.stdin.end()
      await once(shell, 'exit')
    },
  }
}
