-- Where one workspace has sent nearly all of a month, statistics know no other. Removing another one's 750,000 events of it then began each bite of 1,000 by sorting all that were left of
-- them, found by the index of transactions: a third of a second each, and half an hour for a million messages, which in the order of the keys takes less than a minute. With sorting switched
-- off only the index that has this order is left (docs/decisions/0006). Otherwise as `erase_rows_1`, which an older release beside us calls.
create function erase_rows_2(parent text, keys text[], space uuid, most integer, from_leaf text, from_keys text[])
  returns table(many integer, leaf text, last text[])
  language plpgsql set enable_bitmapscan = off set enable_sort = off
as $$
declare
  named constant text := (select string_agg(format(', %I', k), '') from unnest(keys) k);
  taken integer;
  name text;
begin
  many := 0;
  for name in select l from leaves_of_1(parent) l where from_leaf is null or l >= from_leaf loop
    begin
      execute format('with seen as materialized (
                        select ctid row%2$s from %1$I where workspace_id = $1%3$s order by workspace_id%2$s limit $2 for update skip locked),
                      gone as (delete from %1$I where ctid = any (array(select s.row from seen s)) returning 1)
                      select (select count(*)::integer from gone), (select array[%4$s]::text[] from seen s order by %5$s limit 1)',
          name, named,
          case when name = from_leaf and cardinality(from_keys) > 0 then
            format(' and (%s) >= (%s)', substr(named, 3), (select string_agg(format('%L', v), ', ') from unnest(from_keys) v)) end,
          substr(named, 3), coalesce((select string_agg(format('s.%I desc', k), ', ') from unnest(keys) k), '1'))
        into taken, last using space, most - many;
      many := many + taken;
      leaf := name;
    exception when undefined_table then null; -- its time was over meanwhile
    end;
    exit when many >= most;
  end loop;
  return next;
end $$;
