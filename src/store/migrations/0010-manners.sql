-- Manners and fairness: what operators set about destinations, TLS policies that must outlive a restart, and the index by which a claim
-- sees, with one look-up for each workspace, whether anything of it is due.

create table destination_limits (
  -- A provider, the organizational domain of a mail host, or '*'.
  name text primary key,
  connections integer check (connections > 0),
  messages_per_connection integer check (messages_per_connection > 0),
  per_minute double precision check (per_minute > 0),
  warm_up_since timestamptz
);

create table mta_sts_policies (
  domain text primary key,
  id text not null,
  mode text not null check (mode in ('enforce', 'testing', 'none')),
  mx text[] not null,
  max_age_seconds integer not null,
  fetched_at timestamptz not null,
  expires_at timestamptz not null
);
create index mta_sts_policies_expiry on mta_sts_policies (expires_at);

create index outbound_turn on outbound (workspace_id, due_at, message_id) where lease_until is null;
