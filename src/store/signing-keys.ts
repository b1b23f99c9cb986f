// What the mail of a domain is signed with.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { DkimAlgorithm } from '../mail/dkim.ts'
import { sql, type Db } from './database.ts'

const signingKeys = sql(
  'signing-keys',
  `select d.name domain, d.return_path_host "returnPathHost", k.selector, k.algorithm, k.private_key_sealed sealed,
          coalesce(k.activated_at, k.created_at) since, k.retired_at "retiredAt"
     from dkim_key_pairs k join domains d on d.workspace_id = k.workspace_id and d.id = k.domain_id
    where k.workspace_id = $1 and k.domain_id = $2
      and (k.state = 'active' or k.retired_at > app_now() - $3 * interval '1 millisecond') order by since, k.selector`,
)

export interface SigningRow {
  readonly domain: string
  /** Null until it is verified. */
  readonly returnPathHost: string | null
  readonly selector: string
  readonly algorithm: DkimAlgorithm
  readonly sealed: Buffer
  /** Since when it signs. */
  readonly since: Date
  readonly retiredAt: Date | null
}

/** What a domain signs with, the oldest first: the DKIM keys of today, still sealed, and those of mail that is under way; and its return path. */
export async function readSigningKeys(db: Db, workspaceId: WorkspaceId, domainId: string): Promise<SigningRow[]> {
  return db.rows<SigningRow>(signingKeys, [workspaceId, domainId, limits.dkimRetiredMs])
}
