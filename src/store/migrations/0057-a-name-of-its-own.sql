-- Members could ask whether another customer's workspace has a name: theirs was refused where it was taken. What they call their workspace is their own
-- from now on, and need not be unlike others; the name that operators gave stays, and is unlike any other. Null: the same. An older release shows that one.
alter table workspaces add column if not exists own_name text;
