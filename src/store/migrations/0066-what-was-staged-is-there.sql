-- Content is staged before the admission that refers to it, and swept where none has come within an hour. An admission that comes later (a machine that
-- slept, a clock that was set) would have accepted a message without its content: it is undone, and its caller told to come again.
create or replace function admit_2(batch json, charged uuid[], commit_them boolean, with_files boolean)
 returns table(n integer, admitted boolean, sender text, suppressed boolean, repeated_id uuid, repeated_ids uuid[], repeated_hash text, workspace_id uuid, at timestamp with time zone, hourly integer, daily integer, monthly integer, hour_used integer, day_used integer, month_used integer, hour_resets integer, day_resets integer, month_resets integer)
 language plpgsql set enable_sort to 'off' as $$
#variable_conflict use_column
declare
  missing bigint;
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
           60 * (60 - coalesce((
             select max(h.age) from (
               select t.age, t.charged, sum(t.charged) over (order by t.age desc) gone from trailing_hour(c.minutes, c.minute, c.at_minute) t) h
              where h.charged > 0 and h.gone > c.hour_used + c.many - c.hourly), 0))
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
    ),
    needed as (
      select f.blob from files f join admitted a on a.w = f.w and a.id = f.id where a.chunks is null
      union
      select a.body_blob from admitted a where a.body_blob is not null
    ),
    adopted as (
      delete from staged_blobs b using needed n where b.id = n.blob returning b.id
    )
    select (select count(*) from needed) - (select count(*) from adopted) into missing;
    if missing > 0 then
      raise exception 'content that was staged is not there any more' using errcode = 'PH003';
    end if;
  end if;
  if commit_them then
    perform tell_1('posthorn_due'); -- heard after the commit, once for the batch
  end if;
end $$;
