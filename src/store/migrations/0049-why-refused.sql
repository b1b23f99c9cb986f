-- Whoever is asked why a submission was refused needs what its sender was told, and which login and request it was. Null in what was written before,
-- and by a node of the release before.

alter table refused_submissions
  -- The member, header or parameter that was wrong.
  add column field text,
  -- The sentence of the refusal, bounded, with no address in it.
  add column error text,
  -- The API key of a request, or the SMTP credential of a session; of neither where a person was signed in.
  add column caller_id uuid,
  -- As in the log, and in the answer's X-Request-Id.
  add column request_id text;
