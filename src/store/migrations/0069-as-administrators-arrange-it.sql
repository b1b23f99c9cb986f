-- Two things that administrators may arrange, and that kept us from cleaning up.
-- In a schema whose name wants quotes ("Mail-App") nothing could be deleted for its age, no workspace removed and no backup made: its name was read as if it were
-- written in a statement. The functions are as before, but for that.
do $$
declare
  definition text;
begin
  for definition in
    select pg_get_functiondef(p.oid) from pg_proc p
     where p.pronamespace = quote_ident(current_schema())::regnamespace and p.prokind = 'f' and p.prosrc like '%current_schema()::regnamespace%'
  loop
    execute replace(definition, 'current_schema()::regnamespace', 'quote_ident(current_schema())::regnamespace');
  end loop;
end $$;
-- Where all tables are published (`create publication ... for all tables`, for a move to a newer PostgreSQL or a stream of changes), PostgreSQL deletes from no table whose rows
-- have no identity: counts came together no more, so that the table grew with each message, and no workspace could be removed. It is the only one without a key.
alter table fresh_counts replica identity full;
