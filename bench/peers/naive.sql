-- What a conventional service would write: a transaction per request. The same facts as ours, in plain tables.
create table plans (name text primary key, api_sending boolean not null, hourly integer);
create table workspaces (id uuid primary key, status text not null, plan text not null references plans);
create table api_keys (secret_hash bytea primary key, workspace_id uuid not null references workspaces, scopes text[] not null);
create table mailboxes (id uuid primary key, workspace_id uuid not null references workspaces, address text not null, status text not null);
create table suppressions (workspace_id uuid not null, recipient text not null, primary key (workspace_id, recipient));
create table usage (workspace_id uuid primary key, charged integer not null, hour timestamptz not null) with (fillfactor = 10);
create table messages (
  id uuid primary key, workspace_id uuid not null, mailbox_id uuid not null, status text not null, sender text not null,
  recipient text not null, subject text not null, metadata json, created_at timestamptz not null);
create table contents (message_id uuid primary key, body_text text not null);
create table queue (message_id uuid primary key, workspace_id uuid not null, destination text not null, due_at timestamptz not null,
  lease_until timestamptz, attempts integer not null default 0);
create index queue_due on queue (due_at) where lease_until is null;
create table events (message_id uuid not null, sequence integer not null, type text not null, occurred_at timestamptz not null,
  primary key (message_id, sequence));
insert into plans values ('unlimited', true, null);
