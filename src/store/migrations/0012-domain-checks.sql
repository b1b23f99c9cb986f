-- Domains are checked against the DNS, on demand and on schedule, and their DKIM keys are rotated with two selectors.

alter table domains
  -- Set while the domain's own return path host (bounces.NAME) leads to us (decisions C).
  add column if not exists return_path_host text,
  -- Verified by an operator's word: no check takes it away.
  add column vouched boolean not null default false,
  -- Since when its records are broken; it still sends for 72 hours.
  add column degraded_at timestamptz,
  add column checked_at timestamptz,
  -- When it is looked at next by itself; null: not any more. Whoever takes it puts this ahead, so that no two nodes check it at once.
  add column check_due_at timestamptz,
  add column checks_unanswered integer not null default 0,
  -- What the last check saw, record by record.
  add column found json;
create index domains_check_due on domains (check_due_at) where check_due_at is not null;

update domains set vouched = true where status in ('verified', 'degraded');
update domains set check_due_at = app_now() where status in ('pending', 'failed');

alter table dkim_keys
  -- pending: its record was not seen yet; active: signs; retired: its record stays in the DNS for mail under way.
  add column state text not null default 'active' check (state in ('pending', 'active', 'retired')),
  add column activated_at timestamptz,
  add column retired_at timestamptz,
  add constraint retired_since check ((state = 'retired') = (retired_at is not null));
-- One key of each algorithm signs, and one waits.
create unique index dkim_keys_signing on dkim_keys (workspace_id, domain_id, algorithm, state) where state <> 'retired';
