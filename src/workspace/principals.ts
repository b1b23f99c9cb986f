// Who holds a key, asked by every request. Answers are remembered for less than a second, bounded, and forgotten at once when anything
// that they depend on changes, so a revoked key is refused on every node (decisions H).
import { hash } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { looksLikeApiKey } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { Principal } from '../domain/submission.ts'
import { findHolder, noteUse } from '../store/access.ts'
import type { HolderRow } from '../store/access.ts'
import type { Db } from '../store/database.ts'
import { standingIn } from './standing.ts'

export interface Authenticator {
  /** Undefined where the key is unknown, revoked or expired. Throws when the database cannot tell. */
  readonly authenticate: (secret: string) => Promise<Principal | undefined>
  /** Something that answers depend on has changed: to be called at each notification on the channel `posthorn_access`. */
  readonly forget: () => void
}

interface Remembered {
  readonly principal: Principal
  /** On the clock of `performance.now()`. */
  readonly until: number
}
interface Asked {
  readonly since: number
  readonly answer: Promise<Principal | undefined>
}

export function makeAuthenticator(tools: {
  readonly db: Db
  readonly log: Log
  readonly publicUrl: string
}): Authenticator {
  const { db, log } = tools
  const remembered = new Map<string, Remembered>()
  const asked = new Map<string, Asked>()
  /** Counts changes of access: what was asked before one is not remembered after it. */
  let changes = 0

  // In the background: no request waits for it.
  const note = (row: HolderRow): void =>
    void noteUse(db, row.workspace_id, row.id).catch((error: unknown) =>
      log.fault('keys: when a key was used could not be written down', error),
    )

  const ask = async (secretHash: string, since: number): Promise<Principal | undefined> => {
    const before = changes
    const row = await findHolder(db, Buffer.from(secretHash, 'hex'))
    if (row === undefined) return undefined
    if (row.unseen) note(row)
    const principal = presentHolder(row, tools.publicUrl)
    if (changes === before) {
      // From the start of the question: how old its answer is by now, nobody knows better.
      const until = since + Math.min(limits.principalCacheMs, row.expires_in_ms ?? Infinity)
      remembered.delete(secretHash)
      remembered.set(secretHash, { principal, until })
      if (remembered.size > limits.principalsMax) remembered.delete(remembered.keys().next().value as string)
    }
    return principal
  }

  const share = (secretHash: string, since: number): Promise<Principal | undefined> => {
    const answer = ask(secretHash, since).finally(() => {
      if (asked.get(secretHash)?.answer === answer) asked.delete(secretHash)
    })
    asked.set(secretHash, { since, answer })
    return answer
  }

  return {
    authenticate: async (secret) => {
      if (!looksLikeApiKey(secret)) return undefined
      const secretHash = hash('sha256', secret)
      const now = performance.now()
      const known = remembered.get(secretHash)
      if (known !== undefined && now < known.until) return known.principal
      const question = asked.get(secretHash)
      // An old question may have been answered before the key was revoked.
      if (question !== undefined && now - question.since < limits.principalCacheMs) return question.answer
      return share(secretHash, now)
    },
    forget: () => {
      changes++
      remembered.clear()
      asked.clear()
    },
  }
}

function presentHolder(row: HolderRow, publicUrl: string): Principal {
  return {
    actor: `key:${row.id}`,
    keyId: row.id,
    workspaceId: row.workspace_id,
    scopes: new Set(row.scopes),
    ...standingIn(row, publicUrl),
  }
}
