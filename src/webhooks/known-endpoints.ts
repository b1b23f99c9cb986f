// Endpoints as a sender needs them: the URL parsed, the secrets opened into keys, once for each version of the row. A claim tells which
// version it has seen, so what is kept is never older than that; and not for long, since a failover may have lost what made it so.
import { limits } from '../config.ts'
import { BoundedMap } from '../base/bounded-map.ts'
import { sealedAs, type Vault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { findEndpoint, type EndpointRow } from '../store/webhook-endpoints.ts'
import { signingKey, type Signers } from './signature.ts'

export interface KnownEndpoint {
  readonly url: URL
  readonly apiVersion: string
  readonly active: boolean
  readonly version: number
  /** Those that sign at this moment: a replaced one stops when its time is over. */
  signers(): Signers
}

export function makeKnownEndpoints(db: Db, vault: Vault) {
  const known = new BoundedMap<WorkspaceId, KnownEndpoint & { readonly askedAt: number }>(
    limits.webhookEndpointsKnownMax,
  )
  const asked = new Map<string, Promise<KnownEndpoint | undefined>>()

  const read = async (workspace: WorkspaceId): Promise<KnownEndpoint | undefined> => {
    const askedAt = performance.now()
    const row = await findEndpoint(db, workspace)
    if (row === undefined) return undefined
    const endpoint = { ...open(workspace, row, vault, askedAt), askedAt }
    known.set(workspace, endpoint)
    return endpoint
  }

  return {
    /** At least as new as `version`, and as it was so long ago at most; undefined where there is none. */
    get: (workspace: WorkspaceId, version: number, keptMs: number): Promise<KnownEndpoint | undefined> => {
      const have = known.get(workspace)
      if (have !== undefined && have.version >= version && performance.now() - have.askedAt <= keptMs)
        return Promise.resolve(have)
      const name = `${workspace} ${version}`
      const underWay = asked.get(name)
      if (underWay !== undefined) return underWay
      const answer = read(workspace).finally(() => asked.delete(name))
      asked.set(name, answer)
      return answer
    },
  }
}

function open(workspace: WorkspaceId, row: EndpointRow, vault: Vault, askedAt: number): KnownEndpoint {
  const key = (sealed: Buffer) => signingKey(vault.open(sealed, sealedAs.webhookSecret(workspace)))
  const current = key(row.secret_sealed)
  const always: Signers = { current, ...(row.next_sealed !== null && { next: key(row.next_sealed) }) }
  const withPrevious: Signers =
    row.previous_sealed === null ? always : { ...always, previous: key(row.previous_sealed) }
  // From the question on: by the answer, however late, a part of it is over.
  const previousUntil = askedAt + (row.previous_ms ?? 0)
  return {
    url: new URL(row.url),
    apiVersion: row.api_version,
    active: row.state === 'active',
    version: row.version,
    signers: () => (performance.now() < previousUntil ? withPrevious : always),
  }
}
