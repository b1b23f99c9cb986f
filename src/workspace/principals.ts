// Who holds a key, asked by every request.
import { hash } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { looksLikeApiKey } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { Principal } from '../domain/submission.ts'
import { findHolder, noteKeyUses } from '../store/api-keys.ts'
import type { HolderRow } from '../store/api-keys.ts'
import type { Db } from '../store/database.ts'
import { makeUses } from '../store/uses.ts'
import { RememberedAccess } from './remembered-access.ts'
import { standingIn } from './standing.ts'

export interface Authenticator {
  /** Undefined where the key is unknown, revoked or expired. Throws when the database cannot tell. */
  readonly authenticate: (secret: string) => Promise<Principal | undefined>
  /** Something that answers depend on has changed: to be called at each notification on the channel `posthorn_access`. */
  readonly forget: () => void
  /** Resolves when it is written down who was there. */
  readonly quiet: () => Promise<void>
}

interface Holder {
  readonly principal: Principal
  readonly endsInMs: number
}

export function makeAuthenticator(tools: {
  readonly db: Db
  readonly log: Log
  readonly publicUrl: string
}): Authenticator {
  const { db, log } = tools
  const uses = makeUses(db, noteKeyUses, log, 'keys: when keys were used could not be written down')
  const holders = new RememberedAccess<Holder>(limits.principalsMax, ({ endsInMs }) => endsInMs)

  const find = async (secretHash: string): Promise<Holder | undefined> => {
    const row = await findHolder(db, Buffer.from(secretHash, 'hex'))
    if (row === undefined) return undefined
    uses.note(row)
    return { principal: presentHolder(row, tools.publicUrl), endsInMs: row.expires_in_ms ?? Infinity }
  }

  return {
    authenticate: async (secret) => {
      if (!looksLikeApiKey(secret)) return undefined
      const secretHash = hash('sha256', secret)
      return (await holders.get(secretHash, () => find(secretHash)))?.principal
    },
    forget: () => holders.forget(),
    quiet: () => uses.quiet(),
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
