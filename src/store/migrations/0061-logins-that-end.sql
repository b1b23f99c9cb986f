-- A key makes keys that end no later than it does, but an SMTP login that it made had no end: whoever had a key for a day could send for ever. Logins that
-- are made by a key end with it from now on. Null: no end, as all that stand already. An older release beside us goes on to let in one that has ended, until
-- it is upgraded, and makes logins without an end.
alter table smtp_credentials add column if not exists expires_at timestamptz;
