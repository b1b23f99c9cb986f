// A command as an operator runs it: a real process over a database, and how it ended.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { urlOf } from '../../test/world/postgres.ts'
import type { EmbeddedConnection } from '../embedded/embedded.ts'

export const command = fileURLToPath(new URL('../../bin/posthorn', import.meta.url))

/** Nothing of ours. */
export const bare: NodeJS.ProcessEnv = { PATH: process.env['PATH'], HOME: process.env['HOME'] }
/** What surrounds a command over this database. */
export const around = (connection: EmbeddedConnection, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...bare,
  DATABASE_URL: urlOf(connection),
  POSTHORN_SECRET_KEY: 's'.repeat(32),
  ...more,
})

export interface Ended {
  readonly status: number
  readonly out: string
  readonly err: string
}

export function run(env: NodeJS.ProcessEnv, args: readonly string[], input?: string): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(command, args, { env }, (error, out, err) => {
      resolve({ status: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, out, err })
    })
    if (input !== undefined) child.stdin?.end(input)
  })
}
