-- Wrong passwords and codes at the sign-in are counted here and not in each process, so that several nodes, or a restart, give nobody more
-- guesses. Written by a wrong guess alone, which costs a slow password hash first.

-- `name` is a hash: what strangers type is not kept. Half of `count` is forgotten in a time that the statements know.
create table sign_in_guesses (
  name bytea primary key,
  count double precision not null,
  at timestamptz not null default app_now()
) with (fillfactor = 70);
