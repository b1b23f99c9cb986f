-- Which of these messages have a row in the queue, or a record, that nobody could lock now: somebody else holds it, perhaps for long. What ends or arms many
-- messages at once goes on without those. It waits for nothing, and changes nothing; record by record, by name (docs/decisions/0064).
create or replace function held_1(spaces uuid[], ids uuid[]) returns setof uuid language plpgsql as $$
declare
  mine record;
begin
  for mine in select distinct a.w, a.id from unnest(spaces, ids) as a (w, id) order by a.id loop
    perform 1 from outbound o where o.message_id = mine.id for update skip locked;
    if not found and exists (select from outbound o where o.message_id = mine.id) then
      return next mine.id;
      continue;
    end if;
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id for update skip locked;
    if not found and exists (select from messages m where m.workspace_id = mine.w and m.id = mine.id) then
      return next mine.id;
    end if;
  end loop;
end $$;
