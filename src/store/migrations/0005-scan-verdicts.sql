-- The verdict of the malware scan, kept with each message that had something to scan: who looked, with which signatures, and what could not
-- be looked into. Written by the statement that admits the message.
create table scans (
  workspace_id uuid not null,
  message_id uuid not null,
  record json not null,
  primary key (workspace_id, message_id)
) partition by range (message_id);
create table scans_default partition of scans default;

create or replace function partition_days() returns table (parent text, days integer) language sql immutable as $$
  values ('messages', 28), ('contents', 2), ('attachments', 2), ('blobs', 2), ('events', 7), ('reports', 28), ('attempts', 28),
         ('webhook_attempts', 7), ('scans', 28)
$$;
