-- Who revokes a key is told what it has made, and what that made, and so on, from the audit log. Where a script makes keys all day, with one that stays, nobody ever heard: statements here join row by row (docs/decisions/0006),
-- and 30,000 keys that one key had made were each compared with all of them, for longer than a statement may take. This follows them with a hash. And
-- its rows are found among a million others by an index of their own, which nothing else writes.
create index if not exists audit_log_made on audit_log (workspace_id, id) where action in (
  'key.created', 'smtp_credential.created', 'invitation.sent', 'invitation.accepted', 'webhook.created', 'webhook.changed', 'webhook.secret_prepared');

-- Ids of keys, credentials, persons and, as that of its workspace, the endpoint. What is revoked or gone counts in between: else a key made by a key that is gone would be told
-- by nobody. A person came in by the last invitation that was sent to the address. Of the endpoint it counts who has set where it posts, and who was shown its secret.
create or replace function made_by_key_1(space uuid, key uuid) returns table (kind text, id uuid) language sql stable
  set enable_hashjoin = on set enable_nestloop = off as $$
  with recursive
   told as materialized (
     select a.id, a.actor, a.action, a.target, a.facts ->> 'url' url from audit_log a
      where a.workspace_id = space and a.id >= (select uuid_floor(k.created_at - interval '10 minutes') from api_keys k where k.workspace_id = space and k.id = key)
        and a.action in (
          'key.created', 'smtp_credential.created', 'invitation.sent', 'invitation.accepted', 'webhook.created', 'webhook.changed', 'webhook.secret_prepared')),
   invited as (
     select t.action, t.actor, max((case when t.action = 'invitation.sent' then t.id::text || t.actor end) collate "C") over (partition by t.target order by t.id) sent
       from told t where t.action in ('invitation.sent', 'invitation.accepted')),
   made (maker, made) as materialized (
     select t.actor, 'key:' || t.target from told t where t.action = 'key.created'
     union all
     select substr(i.sent, 37), i.actor from invited i where i.action = 'invitation.accepted' and i.sent is not null),
   makers (maker) as (select 'key:' || key union select m.made from makers r join made m on m.maker = r.maker),
   endpoint (maker) as (
     (select t.actor from told t where t.action = 'webhook.created' or t.action = 'webhook.changed' and t.url = 'changed' order by t.id desc limit 1)
     union all
     (select t.actor from told t where t.action in ('webhook.created', 'webhook.secret_prepared') order by t.id desc limit 1))
  select case t.action when 'key.created' then 'key' else 'smtp_credential' end, t.target::uuid
    from told t join makers m on m.maker = t.actor where t.action in ('key.created', 'smtp_credential.created')
  union all
  select 'member', substr(m.maker, 6)::uuid from makers m where starts_with(m.maker, 'user:')
  union all
  select 'webhook', space where exists (select from endpoint x join makers m on m.maker = x.maker)
$$;
