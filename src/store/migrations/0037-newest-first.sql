-- Two rows change with every statement: what a workspace has used, and the counter of a node that delivers. While a snapshot is held (a backup), all
-- that they were since stays behind their keys, and whoever looks one up went along it: at 100 messages a second an admission took three times as long
-- after two minutes. Now a second column of an index brings the newest first, one that changes seldom, so that the other changes need no index; and a
-- row that was found is not looked up again. What the functions do, and their names, stay: an older release may call them beside us.

create index usage_newest on usage (workspace_id, minute);
alter table delivering_nodes add column thousand bigint generated always as (counter / 1000) stored;
create index delivering_nodes_newest on delivering_nodes (id, thousand);

create or replace function admit_2(batch json, charged uuid[], commit_them boolean, with_files boolean)
 returns table(n integer, admitted boolean, sender text, suppressed boolean, repeated_id uuid, repeated_ids uuid[], repeated_hash text, workspace_id uuid, at timestamp with time zone, hourly integer, daily integer, monthly integer, hour_used integer, day_used integer, month_used integer, hour_resets integer, day_resets integer, month_resets integer)
 language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  now_minute bigint := minute_of(app_now());
  today date := (app_now() at time zone 'UTC')::date;
  this_month date := date_trunc('month', app_now() at time zone 'UTC')::date;
begin
  if commit_them then
    -- Quota rows first, in the order of their keys: every admission takes them in this order, so no two wait for each other.
    perform 1 from (select x.id from unnest(charged) x (id) order by x.id) c cross join lateral (
      select from usage u where u.workspace_id = c.id order by u.minute desc limit 1 for update) held;
  end if;
  return query
  with submitted as materialized (
    select * from json_to_recordset(batch) as s (
      n integer, g integer, size integer, id uuid, w uuid, mailbox uuid, source text, recipient text, recipient_key text, destination text,
      subject text, body text, body_blob uuid, form text, shares_blobs boolean, metadata json, expires timestamptz, accepted_by text, age_ms bigint,
      endpoint text, idem text, hash text, keep_ms bigint, ids uuid[])
  ),
  quota as materialized (
    select u.workspace_id, p.hourly, p.daily, p.monthly, c.minute at_minute, c.day at_day, c.month at_month,
           hour_count(u.minutes, u.minute, c.minute) hour_used,
           case when u.day = c.day then u.day_count else 0 end day_used,
           case when u.month = c.month then u.month_count else 0 end month_used,
           u.minutes, u.minute, u.row
      from unnest(charged) x (id) cross join lateral (select y.*, y.ctid row from usage y where y.workspace_id = x.id order by y.minute desc limit 1) u
           join workspaces w on w.id = u.workspace_id join plans p on p.name = w.plan
           cross join lateral charged_at(u.minute, now_minute) c
  ),
  seen as materialized (
    select s.*, box.address sender, box.name sender_name, repeated.message_id repeated_id, repeated.message_ids repeated_ids,
           repeated.body_hash repeated_hash, no.recipient_key is not null suppressed
      from submitted s
      left join lateral (
        select m.address, m.name from mailboxes m join domains d on d.workspace_id = m.workspace_id and d.id = m.domain_id
         where m.workspace_id = s.w and m.id = s.mailbox and m.status = 'active' and d.status in ('verified', 'degraded') limit 1) box on true
      left join lateral (
        select k.message_id, k.message_ids, k.body_hash from idempotency_keys k
         where s.idem is not null and k.workspace_id = s.w and k.endpoint = s.endpoint and k.key = s.idem
           and (s.keep_ms is null or k.created_at > now_at - s.keep_ms * interval '1 millisecond') limit 1) repeated on true
      left join lateral (
        select x.recipient_key from suppressions x
         where x.workspace_id = s.w and x.recipient_key = s.recipient_key limit 1) no on true
  ),
  spoiled as materialized (
    select coalesce(array_agg(e.g), '{}') groups from seen e where e.sender is null or e.suppressed or e.repeated_id is not null
  ),
  welcome as (
    select e.*, q.hourly, q.daily, q.monthly, q.hour_used, q.day_used, q.month_used,
           commit_them and e.g <> all ((select groups from spoiled)::integer[])
             and (q.hourly is null or q.hour_used + e.size <= q.hourly)
             and (q.daily is null or q.day_used + e.size <= q.daily)
             and (q.monthly is null or q.month_used + e.size <= q.monthly) eligible
      from seen e join quota q on q.workspace_id = e.w
  ),
  ranked as (
    -- the place of the last row of the group: its rows follow each other
    select c.*, row_number() over (partition by c.w, c.eligible order by c.n) - (c.n - c.g) + c.size - 1 rank from welcome c
  ),
  judged as materialized (
    select r.*, r.eligible and (r.hourly is null or r.hour_used + r.rank <= r.hourly)
                           and (r.daily is null or r.day_used + r.rank <= r.daily)
                           and (r.monthly is null or r.month_used + r.rank <= r.monthly) admitted
      from ranked r
  ),
  admitted as not materialized (select j.* from judged j where j.admitted),
  charges as materialized (
    select q.*, coalesce(a.many, 0) many
      from quota q left join lateral (select count(*)::integer many from admitted a where a.w = q.workspace_id) a on true
  ),
  charge as (
    update usage u
       set minutes = charge_minute(u.minutes, u.minute, c.at_minute, c.many), minute = c.at_minute,
           day = c.at_day, day_count = c.day_used + c.many, month = c.at_month, month_count = c.month_used + c.many
      from charges c where u.ctid = c.row and c.many > 0
  ),
  record as (
    insert into messages (workspace_id, id, mailbox_id, source, sequence, sender, sender_name, recipient, recipient_key, subject, metadata,
                          accepted_by, created_at, expires_at)
    select a.w, a.id, a.mailbox, a.source, 1, a.sender, a.sender_name, a.recipient, a.recipient_key, a.subject, a.metadata,
           a.accepted_by, now_at, a.expires from admitted a
  ),
  content as (
    insert into contents (workspace_id, message_id, body_text, body_blob, form, shares_blobs)
    select a.w, a.id, a.body, a.body_blob, coalesce(a.form, 'text'), coalesce(a.shares_blobs, false) from admitted a
  ),
  queue as (
    insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
    select a.id, a.w, a.mailbox, a.destination, now_at,
           least(coalesce(a.expires, 'infinity'), now_at + a.age_ms * interval '1 millisecond') from admitted a
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
    select a.w, a.id, 1, 'message.queued', 'queued', 0, now_at from admitted a
  ),
  repeatable as (
    -- a key that does not count any more is taken over
    insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id, message_ids, created_at)
    select a.w, a.endpoint, a.idem, a.hash, a.id, a.ids, now_at from admitted a where a.idem is not null
    on conflict (workspace_id, endpoint, key) do update
       set body_hash = excluded.body_hash, message_id = excluded.message_id, message_ids = excluded.message_ids, created_at = now_at
  )
  select j.n, j.admitted, j.sender, j.suppressed, j.repeated_id, j.repeated_ids, j.repeated_hash,
         null, null, null, null, null, null, null, null, null, null, null
    from judged j
  union all
  select null, null, null, null, null, null, null, c.workspace_id, now_at, c.hourly, c.daily, c.monthly,
         c.hour_used + c.many, c.day_used + c.many, c.month_used + c.many,
         case when c.hourly is not null then
           60 * (60 - coalesce((select max(h.age) from trailing_hour(c.minutes, c.minute, c.at_minute) h where h.charged > 0), 0))
             - extract(second from now_at)::integer end,
         extract(epoch from (today + 1)::timestamp - (now_at at time zone 'UTC'))::integer,
         extract(epoch from this_month + interval '1 month' - (now_at at time zone 'UTC'))::integer
    from charges c;
  if commit_them and with_files then
    -- Apart, because few have any: what a statement may have to do costs time even where there is nothing to do.
    with admitted as materialized (
      select s.* from json_to_recordset(batch) as s (id uuid, w uuid, body_blob uuid, files json, chunks json)
        cross join lateral (select from contents c where c.workspace_id = s.w and c.message_id = s.id limit 1) is_there
    ),
    files as materialized (
      select a.w, a.id, f.* from admitted a cross join lateral json_to_recordset(a.files) as f (
        position smallint, filename text, content_type text, size integer, blob uuid) where a.files is not null
    ),
    attached as (
      insert into attachments (workspace_id, message_id, position, filename, content_type, size_bytes, blob_id)
      select f.w, f.id, f.position, f.filename, f.content_type, f.size, f.blob from files f
    ),
    inlined as (
      insert into blobs (id, part, bytes)
      select c.blob, 0, decode(c.bytes, 'base64') from admitted a cross join lateral json_to_recordset(a.chunks) as c (blob uuid, bytes text)
       where a.chunks is not null
    )
    delete from staged_blobs b using (
      select f.blob from files f union select a.body_blob from admitted a where a.body_blob is not null) used where b.id = used.blob;
  end if;
  if commit_them then
    perform pg_notify('posthorn_due', ''); -- heard after the commit, once for the batch
  end if;
end $$;

create or replace function arm_3(ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint)
 returns table(id uuid, epoch integer, answer text, counter double precision)
 language plpgsql as $$
#variable_conflict use_column
declare
  own tid;
  raised float8;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  -- Held before it is raised: a row that changed under the second statement would look like a node that is behind.
  select n.ctid into own from delivering_nodes n where n.id = node order by n.thousand desc limit 1 for update;
  update delivering_nodes n set counter = n.counter + 1
   where n.ctid = own and n.counter >= mark and not exists (select from delivery_stops) returning n.counter::float8 into raised;
  if raised is null then
    if not exists (select from delivery_stops) then
      perform stop_delivery_1('fence', 'behind', json_build_object('node', (select n.name from delivering_nodes n where n.id = node), 'mark', mark,
        'counter', (select n.counter from delivering_nodes n where n.id = node)));
    end if;
    return query select a.id, a.epoch, 'halted', null::float8 from unnest(ids, epochs) as a (id, epoch);
    return;
  end if;
  return query
  with asked as materialized (
    select a.id, a.epoch, a.token, o.row,
           exists (select from suppressions x where x.workspace_id = o.workspace_id and x.recipient_key = a.key) suppressed
      from unnest(ids, epochs, tokens, keys) as a (id, epoch, token, key)
      cross join lateral (
        select x.ctid row, x.workspace_id, x.destination from outbound x where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
  ),
  armed as (
    update outbound o set armed_epoch = j.epoch from asked j
     where not j.suppressed and o.ctid = j.row
       and o.epoch = j.epoch and o.token = j.token and o.status = 'sending' and o.armed_epoch is null and (o.lease_until <= app_now()) is false
    returning o.message_id, o.epoch
  )
  select a.message_id, a.epoch, 'armed', raised from armed a
  union all
  select j.id, j.epoch, 'suppressed', raised from asked j where j.suppressed;
end $$;
