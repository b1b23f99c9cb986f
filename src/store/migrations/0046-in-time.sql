-- Raises where the transaction has taken longer than its caller waits: whoever was not told that something was accepted sends again.
create or replace function in_time_1(patience_ms double precision) returns boolean language plpgsql as $$
begin
  if extract(epoch from clock_timestamp() - now()) * 1000 > patience_ms then
    raise exception 'the caller does not wait any longer' using errcode = 'PH002';
  end if;
  return true;
end $$;
