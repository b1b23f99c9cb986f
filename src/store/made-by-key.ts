// What depends on an API key: what it has made.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import { isLive } from './term.ts'

/** Of all that comes of it (`made_by_key_1`) what is still valid. Each is looked up: there may be very many that are not. */
const madeOf = sql(
  'list-made-by-key',
  `with made as materialized (select m.kind, m.id from made_by_key_1($1, $2) m)
   select m.kind, k.id, k.name from made m
     cross join lateral (select x.id, x.name from api_keys x where x.workspace_id = $1 and x.id = m.id and ${isLive('x')} limit 1) k where m.kind = 'key'
   union all
   select m.kind, c.id, c.name from made m
     cross join lateral (select x.id, x.name from smtp_credentials x where x.workspace_id = $1 and x.id = m.id and ${isLive('x')} limit 1) c
    where m.kind = 'smtp_credential'
   union all
   select m.kind, u.id, u.email from made m
     cross join lateral (select x.user_id from members x where x.workspace_id = $1 and x.user_id = m.id limit 1) b join users u on u.id = b.user_id
    where m.kind = 'member'
   union all
   select m.kind, e.workspace_id, split_part(e.url, '/', 3) from made m join webhook_endpoints e on e.workspace_id = m.id where m.kind = 'webhook'
   order by kind, id`,
)

export interface MadeRow {
  readonly kind: 'key' | 'smtp_credential' | 'member' | 'webhook'
  /** Of a member the person's, of the webhook endpoint the workspace's. */
  readonly id: string
  /** Of a member the address, of the endpoint the host. */
  readonly name: string
}

/** What a key has made, or what it made, and so on, as far as the audit log still knows, and that is still valid. */
export const listMadeByKey = (db: Db, workspace: WorkspaceId, id: string): Promise<MadeRow[]> =>
  db.rows<MadeRow>(madeOf, [workspace, id])
