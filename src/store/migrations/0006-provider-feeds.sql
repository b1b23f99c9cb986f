-- Provider feeds: who may tell us, over HTTP, how mail fared that was handed to a relay.

-- A feed speaks for one route: a workspace's own (workspace_id), or the installation's (null). `secret_sealed` is what its requests are
-- checked with; `topic` is the SNS topic of an SES feed.
create table feeds (
  id uuid primary key,
  workspace_id uuid references workspaces (id),
  provider text not null check (provider in ('ses', 'postmark', 'mailgun', 'sendgrid', 'generic')),
  secret_sealed bytea,
  topic text,
  created_at timestamptz not null default app_now(),
  check ((provider = 'ses') = (topic is not null) and (provider = 'ses') = (secret_sealed is null))
);

-- Signed tokens and ids that were seen, each with the body that it came with. The same again is harmless, for every report is recorded
-- once; the same with another body is a forgery.
create table feed_seen (
  feed_id uuid not null references feeds (id) on delete cascade,
  token_hash bytea not null,
  body_hash bytea not null,
  seen_at timestamptz not null default app_now(),
  primary key (feed_id, token_hash)
);
create index feed_seen_age on feed_seen (feed_id, seen_at);
