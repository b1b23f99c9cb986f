-- "Try again in so many seconds" named when the oldest minute leaves the trailing hour. Where a limit was lowered meanwhile, that makes no room yet: now it is
-- when as much has left that one message more is within the limit. admit_2 as it was, but for that one expression; an older release may call it beside us.
do $$
declare
  before constant text := '(select max(h.age) from trailing_hour(c.minutes, c.minute, c.at_minute) h where h.charged > 0)';
  after constant text := '(
             select max(h.age) from (
               select t.age, t.charged, sum(t.charged) over (order by t.age desc) gone from trailing_hour(c.minutes, c.minute, c.at_minute) t) h
              where h.charged > 0 and h.gone > c.hour_used + c.many - c.hourly)';
  body text := pg_get_functiondef('admit_2(json, uuid[], boolean, boolean)'::regprocedure);
begin
  if strpos(body, before) = 0 then
    raise exception 'admit_2 is not what it was';
  end if;
  execute replace(body, before, after);
end $$;
