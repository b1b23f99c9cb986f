-- People and what they look at: users with sessions, members and invitations, second factors, the audit log, counts for the charts, and
-- the link between an unknown message and the one that was sent again in its place.

------------------------------------------------------------------------------------------------------------------------ people

-- A person. Belongs to workspaces as a member; `operator` is set by the command line alone (decisions H).
create table users (
  id uuid primary key,
  email text not null,
  email_key text not null unique,
  name text,
  -- argon2id in PHC form; null until the person has chosen a password.
  password_hash text,
  operator boolean not null default false,
  -- The secret of the second factor, sealed. What is pending has not been confirmed with a code yet.
  totp_sealed bytea,
  totp_pending_sealed bytea,
  -- The last time step whose code was taken: a code counts once (RFC 6238 5.2).
  totp_step bigint not null default 0,
  created_at timestamptz not null default app_now(),
  last_sign_in_at timestamptz
);

create table recovery_codes (
  user_id uuid not null references users (id) on delete cascade,
  code_hash bytea not null,
  primary key (user_id, code_hash)
);

create table passkeys (
  -- The credential's id, base64url.
  id text primary key,
  user_id uuid not null references users (id) on delete cascade,
  name text not null,
  public_key bytea not null,
  counter bigint not null,
  transports text[] not null,
  created_at timestamptz not null default app_now(),
  last_used_at timestamptz
);
create index passkeys_user on passkeys (user_id);

-- A question to an authenticator, answered at most once.
create table passkey_challenges (
  id uuid primary key,
  challenge text not null,
  user_id uuid references users (id) on delete cascade,
  expires_at timestamptz not null
);

create table members (
  workspace_id uuid not null references workspaces (id),
  user_id uuid not null references users (id) on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  created_at timestamptz not null default app_now(),
  primary key (workspace_id, user_id)
);
create index members_user on members (user_id);

-- Open invitations only: an accepted or withdrawn one is in the audit log.
create table invitations (
  workspace_id uuid not null references workspaces (id),
  id uuid not null,
  email text not null,
  email_key text not null,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  token_hash bytea not null unique,
  invited_by text not null,
  created_at timestamptz not null default app_now(),
  expires_at timestamptz not null,
  primary key (workspace_id, id),
  unique (workspace_id, email_key)
);

create table password_resets (
  token_hash bytea primary key,
  user_id uuid not null references users (id) on delete cascade,
  created_at timestamptz not null default app_now(),
  expires_at timestamptz not null
);
create index password_resets_user on password_resets (user_id);

-- The token itself is in the person's cookie and nowhere else.
create table sessions (
  id uuid primary key,
  token_hash bytea not null unique,
  user_id uuid not null references users (id) on delete cascade,
  created_at timestamptz not null default app_now(),
  seen_at timestamptz not null default app_now(),
  expires_at timestamptz not null,
  address text not null,
  agent text not null
);
create index sessions_user on sessions (user_id);
create index sessions_expires on sessions (expires_at);


------------------------------------------------------------------------------------------------------------------------ counts

-- What happened in an hour, for the charts. `bucket` is 0, but for `sent`: there it is the time from acceptance to the server's 2yz,
-- floor(4 * log2(milliseconds + 1)), so that percentiles are within a fifth of the truth.
create table hourly_counts (
  workspace_id uuid not null,
  hour timestamptz not null,
  kind text not null,
  bucket smallint not null,
  many bigint not null,
  primary key (workspace_id, hour, kind, bucket)
);

-- Not yet folded into hourly_counts: a few rows for each statement that wrote events, only ever inserted and deleted, so that no two
-- statements wait for each other's counters.
create table fresh_counts (
  workspace_id uuid not null,
  hour timestamptz not null,
  kind text not null,
  bucket smallint not null,
  many bigint not null
);
create index fresh_counts_workspace on fresh_counts (workspace_id);

create function count_events() returns trigger language plpgsql as $$
begin
  insert into fresh_counts (workspace_id, hour, kind, bucket, many)
  select e.workspace_id, date_trunc('hour', e.occurred_at, 'UTC'), substr(e.type, 9),
         case when e.type = 'message.sent' then floor(4 / ln(2::float8) * ln(1 + greatest(0, extract(epoch from e.occurred_at)::float8 * 1000
           - ('x' || substr(replace(e.message_id::text, '-', ''), 1, 12))::bit(48)::bigint)))::smallint
         else 0 end,
         count(*)
    from written e where e.type <> 'message.sending'
   group by 1, 2, 3, 4;
  return null;
end $$;
-- On the parent: a statement that writes into several partitions counts once, and every writer of events counts by itself.
create trigger count_events after insert on events referencing new table as written for each statement execute function count_events();

-------------------------------------------------------------------------------------------------------------------- messages

-- The search by recipient. `recipient_key` never changes, so updates of the record stay within their page (HOT).
create index messages_recipient on messages (workspace_id, recipient_key, id);

-- A person's answer to delivery_unknown: at most one new message for it.
create table sent_again (
  workspace_id uuid not null,
  message_id uuid not null,
  again_id uuid not null,
  at timestamptz not null,
  primary key (workspace_id, message_id)
);
create index sent_again_again on sent_again (workspace_id, again_id);

-- Sending again is an admission with the idempotency key of the message that it replaces: at most once is the key's uniqueness. This looks,
-- in the same transaction and on the locked record, whether the message may be replaced at all: unknown, and for so long that no worker can
-- still hold its socket (delivery-semantics, "Send again"). Late proof locks the record too, so one of the two comes first.
create function admit_sent_again() returns trigger language plpgsql as $$
begin
  perform 1 from messages m
    where m.workspace_id = new.workspace_id and m.id = substr(new.key, 1, 36)::uuid and m.status = 'delivery_unknown'
      and m.finished_at <= app_now() - substr(new.key, 38)::integer * interval '1 second' for share;
  if not found then
    raise exception 'message % may not be sent again', new.key using errcode = 'PH001';
  end if;
  insert into sent_again (workspace_id, message_id, again_id, at)
  values (new.workspace_id, substr(new.key, 1, 36)::uuid, new.message_id, app_now());
  return new;
end $$;
create trigger admit_sent_again before insert on idempotency_keys for each row when (new.endpoint = 'send_again')
  execute function admit_sent_again();

---------------------------------------------------------------------------------------------------------------------- sandbox

-- Whose mail it was, so that a workspace sees its own alone.
alter table sandbox_mail add column workspace_id uuid, add column message_id uuid;
create index sandbox_mail_workspace on sandbox_mail (workspace_id, id);
