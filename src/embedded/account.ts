// As whom PostgreSQL runs: it refuses root, and then another account of this machine has to do.
import { execFileSync, spawnSync } from 'node:child_process'
import { codeOf, type DataFolder } from '../base/data-folder.ts'
import { Trouble } from '../base/trouble.ts'
import { tooLittle } from './shortages.ts'

export interface Account {
  readonly uid: number
  readonly gid: number
  readonly name: string
}

/** True when the account can pass through all folders above `path` and enter it. */
export function canEnter(account: Account | undefined, path: string): boolean {
  return runsAs(account, 'cd -- "$1"', path)
}

/**
 * Runs a line of shell as the account, with `path` as $1; true when it succeeds. Where it could not even be run nobody knows: what is put somewhere else
 * for a no would lie there for good.
 */
export function runsAs(account: Account | undefined, line: string, path: string): boolean {
  const { error, status } = spawnSync('/bin/sh', ['-c', line, 'sh', path], { ...identity(account), stdio: 'ignore' })
  if (error !== undefined) throw cannotRun(account === undefined ? '/bin/sh' : `/bin/sh as ${account.name}`, error)
  return status === 0
}

function cannotRun(program: string, error: Error): Trouble {
  const code = codeOf(error)
  const wayOut = ['EPERM', 'EINVAL'].includes(code) ? becomesNobody : tooLittle(code)
  return new Trouble(`${program} cannot be run (${code})${wayOut === undefined ? '' : `: ${wayOut}`}`, { cause: error })
}

/** As in a container without CAP_SETUID and CAP_SETGID (EPERM), or in a user namespace that has no other user (EINVAL). */
const becomesNobody = 'root may not become another user here; start Posthorn as an ordinary user, or set DATABASE_URL'

/** Options of `spawn` to become the account: its ids, no extra groups, a folder it can be in, and nothing of our environment. */
export function identity(account: Account | undefined): {
  uid?: number
  gid?: number
  cwd: string
  env: NodeJS.ProcessEnv
} {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }
  return { ...(account !== undefined && { uid: account.uid, gid: account.gid }), cwd: '/', env }
}

export function newAccount(folder: DataFolder): Account {
  const candidates = [...(folder.owner === undefined ? [] : [String(folder.owner.uid)]), 'postgres', 'nobody']
  for (const candidate of candidates) {
    const found = accountOf(candidate)
    if (found !== undefined && found.uid !== 0) return found
  }
  throw new Trouble(
    'PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody to run it as: ' +
      'make one (useradd --system postgres), start Posthorn as an ordinary user, or set DATABASE_URL',
  )
}

/** Looks an account up by name or number; undefined when the machine does not know it. */
export function accountOf(who: string): Account | undefined {
  try {
    const [uid, gid, name] = ['-u', '-g', '-un'].map((flag) =>
      execFileSync('id', [flag, who], { stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim(),
    )
    return { uid: Number(uid), gid: Number(gid), name: name ?? who }
  } catch (error) {
    // `id` says so by its exit status; one that could not be run says nothing.
    if (typeof (error as { status?: unknown }).status === 'number') return undefined
    throw cannotRun('id', error as Error)
  }
}
