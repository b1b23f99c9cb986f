-- Mail that Posthorn writes itself is told apart from what a caller has handed in: it says of itself that no person wrote it (RFC 3834). Every row
-- has passed the narrower check that stood here: none has to be read again under the lock.
alter table messages
  drop constraint messages_source_check,
  add constraint messages_source_check check (source in ('rest', 'smtp', 'notice')) not valid;
