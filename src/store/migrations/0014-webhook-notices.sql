-- Owners are told by mail when their webhook endpoint was disabled by itself. What is owed follows from the row alone, so a crash between
-- the disabling and the mail forgets nothing.

alter table webhook_endpoints
  -- The `disabled_at` of which they have been told.
  add column told_of timestamptz,
  -- A node is telling them; no other does until then.
  add column telling_until timestamptz;
create index webhook_endpoints_untold on webhook_endpoints (disabled_at)
  where state = 'disabled' and reason <> 'by_hand' and told_of is distinct from disabled_at;
