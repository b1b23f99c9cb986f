-- Commits with a notification wait for each other, and each for the disk. A session that tells behind its statements says so (store/nudges.ts), and its
-- statements leave the notification out; those of everybody else, an older release too, go on telling.
create or replace function tell_1(channel text) returns void language plpgsql as $$
begin
  if current_setting('posthorn.nudged', true) is distinct from 'on' then
    perform pg_notify(channel, '');
  end if;
end $$;

do $do$
begin
  execute replace(pg_get_functiondef('admit_2(json, uuid[], boolean, boolean)'::regprocedure),
    $q$perform pg_notify('posthorn_due', '');$q$, $q$perform tell_1('posthorn_due');$q$);
  execute replace(pg_get_functiondef('queue_webhooks()'::regprocedure),
    $q$perform pg_notify('posthorn_webhooks', '');$q$, $q$perform tell_1('posthorn_webhooks');$q$);
end $do$;
