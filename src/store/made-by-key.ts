// What depends on an API key: what it has made.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import { isLive } from './term.ts'

// From the audit log, since the key was made. What is revoked or gone counts in between: else a key made by a key that is gone would be told by nobody. A
// person came in by the last invitation that was sent to the address. Of the endpoint it counts who has set where it posts, and who was shown its secret.
const madeOf = sql(
  'list-made-by-key',
  `with recursive
   told as materialized (
     select a.id, a.actor, a.action, a.target, a.facts ->> 'url' url
       from api_keys k join audit_log a on a.workspace_id = k.workspace_id and a.id >= uuid_floor(k.created_at - interval '10 minutes')
      where k.workspace_id = $1 and k.id = $2 and a.action in ('key.created', 'smtp_credential.created', 'invitation.sent', 'invitation.accepted',
            'webhook.created', 'webhook.changed', 'webhook.secret_prepared')),
   joined as materialized (
     select distinct on (a.id) s.actor inviter, a.actor from told a join told s on s.action = 'invitation.sent' and s.target = a.target and s.id < a.id
      where a.action = 'invitation.accepted' order by a.id, s.id desc),
   made (maker, made) as materialized (
     select t.actor, 'key:' || t.target from told t where t.action = 'key.created' union all select j.inviter, j.actor from joined j),
   makers (maker) as (select 'key:' || $2::uuid union select m.made from makers r join made m on m.maker = r.maker),
   theirs as materialized (
     select t.action, t.target from told t join makers m on m.maker = t.actor where t.action in ('key.created', 'smtp_credential.created')),
   endpoint (maker) as (
     (select t.actor from told t where t.action = 'webhook.created' or t.action = 'webhook.changed' and t.url = 'changed' order by t.id desc limit 1)
     union all
     (select t.actor from told t where t.action in ('webhook.created', 'webhook.secret_prepared') order by t.id desc limit 1))
   select 'key' kind, k.id, k.name from theirs t join api_keys k on k.id::text = t.target
    where t.action = 'key.created' and k.workspace_id = $1 and ${isLive('k')}
   union all
   select 'smtp_credential', c.id, c.name from theirs t join smtp_credentials c on c.id::text = t.target
    where t.action = 'smtp_credential.created' and c.workspace_id = $1 and ${isLive('c')}
   union all
   select 'member', u.id, u.email from members b join users u on u.id = b.user_id
    where b.workspace_id = $1 and 'user:' || u.id in (select m.maker from makers m)
   union all
   select 'webhook', e.workspace_id, split_part(e.url, '/', 3) from webhook_endpoints e
    where e.workspace_id = $1 and exists (select from endpoint x join makers m on m.maker = x.maker)
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
