-- Everything from acceptance to outcome: who may send, the record, the queue, the history, the quota.
--
-- Conventions: every row that belongs to a workspace carries its id in its key. Tables that grow are partitioned by the message's id,
-- a UUIDv7 whose milliseconds are database time, so that retention drops partitions; there are no foreign keys between them.

-- Time for every statement. Tests replace it in their own database; nothing else may.
create function app_now() returns timestamptz language sql stable as $$ select now() $$;

-- The least UUIDv7 of an instant: a partition's bound.
create function uuid_floor(instant timestamptz) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from instant) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

---------------------------------------------------------------------------------------------------------------- who may send

create table plans (
  name text primary key,
  api_sending boolean not null default true,
  hourly integer check (hourly >= 0),
  daily integer check (daily >= 0),
  monthly integer check (monthly >= 0),
  upgrade_url text
);
insert into plans (name, api_sending, hourly, daily, monthly, upgrade_url) values
  ('free', false, 0, 0, 0, '/upgrade'), ('starter', true, 100, 500, 5000, '/upgrade'),
  ('growth', true, 5000, 50000, 500000, '/upgrade'), ('unlimited', true, null, null, null, null);

create table workspaces (
  id uuid primary key,
  name text not null unique,
  status text not null default 'active' check (status in ('active', 'blocked')),
  plan text not null references plans (name),
  -- A route of its own, sealed (a relay's URL holds a password); null: the installation's.
  route_sealed bytea,
  created_at timestamptz not null default app_now()
);

create table domains (
  workspace_id uuid not null references workspaces (id),
  id uuid not null,
  name text not null,
  status text not null default 'pending' check (status in ('pending', 'verified', 'degraded', 'failed')),
  ownership_token text not null,
  created_at timestamptz not null default app_now(),
  verified_at timestamptz,
  primary key (workspace_id, id),
  unique (workspace_id, name)
);

create table dkim_keys (
  workspace_id uuid not null,
  domain_id uuid not null,
  selector text not null,
  algorithm text not null check (algorithm in ('rsa-sha256', 'ed25519-sha256')),
  public_key text not null,
  private_key_sealed bytea not null,
  created_at timestamptz not null default app_now(),
  primary key (workspace_id, domain_id, selector),
  foreign key (workspace_id, domain_id) references domains (workspace_id, id)
);

create table mailboxes (
  workspace_id uuid not null,
  id uuid not null unique,
  domain_id uuid not null,
  address text not null,
  address_key text not null,
  name text,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz not null default app_now(),
  primary key (workspace_id, id),
  unique (workspace_id, address_key),
  foreign key (workspace_id, domain_id) references domains (workspace_id, id)
);

create table api_keys (
  workspace_id uuid not null references workspaces (id),
  id uuid not null unique,
  name text not null,
  prefix text not null,
  secret_hash bytea not null unique,
  scopes text[] not null,
  created_at timestamptz not null default app_now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  primary key (workspace_id, id)
);

create table suppressions (
  workspace_id uuid not null references workspaces (id),
  recipient_key text not null,
  recipient text not null,
  reason text not null check (reason in ('hard_bounce', 'complaint', 'manual')),
  source_message_id uuid,
  rule text,
  evidence text,
  created_at timestamptz not null default app_now(),
  primary key (workspace_id, recipient_key)
);

-- What a principal's answer depends on has changed: every node forgets what it knew (at most 1 s later it would have anyway).
create function tell_access_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('posthorn_access', '');
  return null;
end $$;
create trigger access_changed after insert or update or delete on plans for each statement execute function tell_access_changed();
create trigger access_changed after update or delete on workspaces for each statement execute function tell_access_changed();
create trigger access_changed after update of revoked_at, scopes, expires_at or delete on api_keys
  for each statement execute function tell_access_changed();

---------------------------------------------------------------------------------------------------------------------- quota

-- All windows of a workspace in one row (decisions E). `minutes[i]` counts the minute whose number is i - 1 modulo 60; `minute` is the
-- number (since 1970) of the last one charged. Day and month are UTC. Many small updates of few rows: hence the fill factor.
create table usage (
  workspace_id uuid primary key references workspaces (id),
  minutes integer[] not null default array_fill(0, array[60]),
  minute bigint not null default 0,
  day date not null default '1970-01-01',
  day_count integer not null default 0,
  month date not null default '1970-01-01',
  month_count integer not null default 0
) with (fillfactor = 10);

create function minute_of(instant timestamptz) returns bigint language sql immutable as $$
  select floor(extract(epoch from instant) / 60)::bigint
$$;

-- The minute, day and month that a charge belongs to. A transaction that waited for the row while another one charged a later minute
-- charges that minute too: back in time it would undo what stands there. (So does one after the clock was set back by less than an hour.)
create function charged_at(last_minute bigint, now_minute bigint) returns table (minute bigint, day date, month date) language sql immutable as $$
  select at.minute, (to_timestamp(at.minute * 60) at time zone 'UTC')::date,
         date_trunc('month', to_timestamp(at.minute * 60) at time zone 'UTC')::date
    from (select case when last_minute - now_minute between 1 and 59 then last_minute else now_minute end as minute) at
$$;

-- The counts of the trailing 60 minutes, oldest first, out of the ring.
create function trailing_hour(minutes integer[], minute bigint, at bigint) returns table (age integer, charged integer)
language sql immutable as $$
  select age::integer, case when at - age <= minute and at - age > minute - 60 then minutes[(at - age) % 60 + 1] else 0 end
    from generate_series(59, 0, -1) age
$$;

-- In plpgsql: a function in SQL that holds a query is set up anew at every call, which costs more than these loops.
create function hour_count(minutes integer[], minute bigint, at bigint) returns integer language plpgsql immutable as $$
declare
  one integer;
  sum integer := 0;
begin
  if at - minute >= 60 then return 0; end if;
  if at = minute then
    foreach one in array minutes loop sum := sum + one; end loop;
    return sum;
  end if;
  return (select sum(charged)::integer from trailing_hour(minutes, minute, at));
end $$;

-- The ring after `charge` more in minute `at`.
create function charge_minute(minutes integer[], minute bigint, at bigint, charge integer) returns integer[] language plpgsql immutable as $$
declare
  place integer := at % 60 + 1;
begin
  if at <> minute then
    minutes := array(
      select case when at - (at - slot) % 60 <= minute and at - (at - slot) % 60 > minute - 60 and slot <> at % 60 then minutes[slot + 1] else 0 end
        from generate_series(0, 59) slot order by slot);
  end if;
  minutes[place] := minutes[place] + charge;
  return minutes;
end $$;

----------------------------------------------------------------------------------------------------------------- the record

create table messages (
  workspace_id uuid not null,
  id uuid not null,
  mailbox_id uuid not null,
  source text not null check (source in ('rest', 'smtp')),
  status text not null default 'queued' check (status in ('queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown')),
  -- domain/delivery-status.ts: the highest rank reported so far.
  delivery_rank smallint not null default 0,
  -- How many events it has; the last one's sequence.
  sequence integer not null,
  sender text not null,
  sender_name text,
  recipient text not null,
  recipient_key text not null,
  subject text not null,
  metadata json,
  -- The name of the machine that accepted it, for the trace field.
  accepted_by text not null,
  provider_message_id text,
  error_message text,
  -- The last armed claim, kept while delivery_unknown so that late proof can name it.
  armed_epoch integer,
  armed_token bigint,
  created_at timestamptz not null,
  expires_at timestamptz,
  finished_at timestamptz,
  content_expired_at timestamptz,
  primary key (workspace_id, id),
  check ((finished_at is not null) = (status in ('sent', 'failed', 'delivery_unknown')))
) partition by range (id);

-- The text of a message, inline when it is small, else in chunks.
create table contents (
  workspace_id uuid not null,
  message_id uuid not null,
  body_text text,
  body_blob uuid,
  primary key (workspace_id, message_id),
  check ((body_text is null) <> (body_blob is null))
) partition by range (message_id);

create table attachments (
  workspace_id uuid not null,
  message_id uuid not null,
  position smallint not null,
  filename text not null,
  content_type text not null,
  size_bytes integer not null,
  blob_id uuid not null,
  primary key (workspace_id, message_id, position)
) partition by range (message_id);

-- Bytes in chunks. Chunks of big content are staged before the admission, which only refers to them.
create table blobs (
  id uuid not null,
  part integer not null,
  bytes bytea not null,
  primary key (id, part)
) partition by range (id);
alter table blobs alter column bytes set storage external;

-- Blobs that no message refers to yet; what stays here for an hour is an orphan and is swept.
create table staged_blobs (id uuid primary key, staged_at timestamptz not null default app_now());

-- One row per event of a message, always; what a webhook will say is `facts` and the record's unchanging columns.
-- `tx` orders events as they were committed, for readers that catch up. The id is made from message and sequence (domain/event.ts).
create table events (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  type text not null,
  status text not null,
  delivery_rank smallint not null,
  occurred_at timestamptz not null,
  facts json,
  tx xid8 not null default pg_current_xact_id(),
  primary key (workspace_id, message_id, sequence)
) partition by range (message_id);

-- What receiving providers said (specification 2.5). Kept as long as the record.
create table reports (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  type text not null check (type in ('delivered', 'soft_bounce', 'hard_bounce', 'complaint')),
  detail text,
  bounce json,
  source text not null,
  created_at timestamptz not null,
  primary key (workspace_id, message_id, sequence)
) partition by range (message_id);

-- One row per ended attempt: the timeline.
create table attempts (
  workspace_id uuid not null,
  message_id uuid not null,
  epoch integer not null,
  ended_at timestamptz not null,
  outcome text not null,
  facts json not null,
  primary key (workspace_id, message_id, epoch)
) partition by range (message_id);

create table idempotency_keys (
  workspace_id uuid not null,
  endpoint text not null,
  key text not null,
  body_hash text not null,
  message_id uuid not null,
  created_at timestamptz not null,
  primary key (workspace_id, endpoint, key)
);

-- Moves of the processing state: domain/moves.ts, and this, and nothing else. A test compares them.
create function refuse_wrong_move() returns trigger language plpgsql as $$
begin
  if not (case old.status
    when 'queued' then new.status in ('sending', 'failed', 'delivery_unknown')
    when 'retrying' then new.status in ('sending', 'failed', 'delivery_unknown')
    when 'sending' then new.status in ('sent', 'retrying', 'failed', 'delivery_unknown')
    when 'delivery_unknown' then new.status in ('sent', 'failed')
    else false end) then
    raise exception 'message % may not become % from %', old.id, new.status, old.status using errcode = 'check_violation';
  end if;
  return new;
end $$;
create trigger message_moves before update of status on messages for each row
  when (old.status is distinct from new.status) execute function refuse_wrong_move();

------------------------------------------------------------------------------------------------------------------ the queue

-- One narrow row per message that is not final; gone when it is.
create table outbound (
  message_id uuid primary key,
  workspace_id uuid not null,
  mailbox_id uuid not null,
  -- The recipient's domain: with the workspace, the lane of fair claiming.
  destination text not null,
  status text not null default 'queued' check (status in ('queued', 'retrying', 'sending')),
  due_at timestamptz not null,
  expires_at timestamptz not null,
  -- The fencing number: + 1 at each claim; with a random token beside it, so that no claim is ever mistaken for another one,
  -- also not after a restore.
  epoch integer not null default 0,
  token bigint,
  lease_until timestamptz,
  lease_owner uuid,
  armed_epoch integer,
  attempts integer not null default 0,
  -- Why an armed claim may be tried again: the receiver's 4yz to its dot, or its worker's word that the dot was never written.
  evidence text check (evidence in ('eod_4xx', 'not_written')),
  constraint lease_while_sending check ((status = 'sending') = (lease_until is not null)),
  constraint armed_while_sending check (armed_epoch is null or (status = 'sending' and armed_epoch = epoch))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
create index outbound_due on outbound (workspace_id, destination, due_at, message_id) where lease_until is null;
create index outbound_lease on outbound (lease_until) where lease_until is not null;

create function refuse_unproven_retry() returns trigger language plpgsql as $$
begin
  raise exception 'message % is armed: without proof that it was not accepted it may not be tried again', old.message_id
    using errcode = 'check_violation';
end $$;
create trigger armed_rows_need_evidence before update on outbound for each row
  when (old.armed_epoch is not null and new.status <> 'sending' and new.evidence is null) execute function refuse_unproven_retry();

-- What the sandbox received.
create table sandbox_mail (
  id uuid primary key,
  received_at timestamptz not null,
  envelope_from text not null,
  recipient text not null,
  content bytea not null
);
create index sandbox_mail_recipient on sandbox_mail (recipient, id);

-- Facts of the installation itself.
create table installation (name text primary key, value text not null);

----------------------------------------------------------------------------------------------------------------- partitions

-- How many days one partition of each table holds.
create function partition_days() returns table (parent text, days integer) language sql immutable as $$
  values ('messages', 28), ('contents', 2), ('attachments', 2), ('blobs', 2), ('events', 7), ('reports', 28), ('attempts', 28)
$$;

-- Makes the partitions that hold [since, til) where they are missing. A default partition catches what falls outside.
create function ensure_partitions(since timestamptz, til timestamptz) returns integer language plpgsql as $$
declare
  plan record;
  period bigint;
  made integer := 0;
  name text;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn partitions'));
  for plan in select * from partition_days() loop
    for period in select generate_series(floor(extract(epoch from since) / (plan.days * 86400))::bigint,
                                         floor(extract(epoch from til) / (plan.days * 86400))::bigint) loop
      name := format('%s_%s', plan.parent, to_char(to_timestamp(period * plan.days * 86400) at time zone 'UTC', 'YYYYMMDD'));
      continue when to_regclass(name) is not null;
      execute format('create table %I partition of %I for values from (%L) to (%L)', name, plan.parent,
        uuid_floor(to_timestamp(period * plan.days * 86400)), uuid_floor(to_timestamp((period + 1) * plan.days * 86400)));
      if plan.parent in ('messages') then
        execute format('alter table %I set (fillfactor = 85)', name);
      end if;
      made := made + 1;
    end loop;
  end loop;
  return made;
end $$;

create table messages_default partition of messages default;
create table contents_default partition of contents default;
create table attachments_default partition of attachments default;
create table blobs_default partition of blobs default;
create table events_default partition of events default;
create table reports_default partition of reports default;
create table attempts_default partition of attempts default;
