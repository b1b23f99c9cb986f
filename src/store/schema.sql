-- The schema that the migrations make: read it, never run it. Made by `npm run golden` from PostgreSQL's catalog; a test compares.
-- Left out: partitions (made ahead by ensure_partitions) and the migrator's own tables.

create table api_keys (
  workspace_id uuid not null,
  id uuid not null,
  name text not null,
  prefix text not null,
  secret_hash bytea not null,
  scopes text[] not null,
  created_at timestamp with time zone not null default app_now(),
  last_used_at timestamp with time zone,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (workspace_id, id),
  constraint api_keys_id_key UNIQUE (id),
  constraint api_keys_secret_hash_key UNIQUE (secret_hash),
  constraint api_keys_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
);
CREATE TRIGGER access_changed AFTER DELETE OR UPDATE OF revoked_at, scopes, expires_at ON public.api_keys FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();

create table attachments (
  workspace_id uuid not null,
  message_id uuid not null,
  position smallint not null,
  filename text not null,
  content_type text not null,
  size_bytes integer not null,
  blob_id uuid not null,
  constraint attachments_pkey PRIMARY KEY (workspace_id, message_id, "position")
) partition by RANGE (message_id);

create table attempts (
  workspace_id uuid not null,
  message_id uuid not null,
  epoch integer not null,
  ended_at timestamp with time zone not null,
  outcome text not null,
  facts json not null,
  constraint attempts_pkey PRIMARY KEY (workspace_id, message_id, epoch)
) partition by RANGE (message_id);

create table audit_log (
  id uuid not null,
  workspace_id uuid,
  at timestamp with time zone not null default app_now(),
  actor text not null,
  action text not null,
  target text,
  facts json,
  constraint audit_log_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_log_made ON public.audit_log USING btree (workspace_id, id) WHERE (action = ANY (ARRAY['key.created'::text, 'smtp_credential.created'::text, 'invitation.sent'::text, 'invitation.accepted'::text, 'webhook.created'::text, 'webhook.changed'::text, 'webhook.secret_prepared'::text]));
CREATE INDEX audit_log_workspace ON public.audit_log USING btree (workspace_id, id);

create table blobs (
  id uuid not null,
  part integer not null,
  bytes bytea storage external not null,
  constraint blobs_pkey PRIMARY KEY (id, part)
) partition by RANGE (id);

create table contents (
  workspace_id uuid not null,
  message_id uuid not null,
  body_text text,
  body_blob uuid,
  form text not null default 'text'::text,
  shares_blobs boolean not null default false,
  constraint contents_pkey PRIMARY KEY (workspace_id, message_id),
  constraint contents_check CHECK (((body_text IS NULL) <> (body_blob IS NULL))),
  constraint contents_form_check CHECK ((form = ANY (ARRAY['text'::text, 'mail'::text])))
) partition by RANGE (message_id);

create table delivering_nodes (
  id uuid not null,
  name text not null,
  counter bigint not null default 0,
  timeline text,
  confirmed_at timestamp with time zone not null default app_now(),
  thousand bigint generated always as (counter / 1000) stored,
  era bigint,
  constraint delivering_nodes_pkey PRIMARY KEY (id)
) with (fillfactor=10);
CREATE INDEX delivering_nodes_newest ON public.delivering_nodes USING btree (id, thousand);

create table delivery_stops (
  kind text not null,
  reason text not null,
  facts json,
  since timestamp with time zone not null default app_now(),
  constraint delivery_stops_pkey PRIMARY KEY (kind),
  constraint delivery_stops_kind_check CHECK ((kind = ANY (ARRAY['fence'::text, 'pause'::text, 'drain'::text])))
);
CREATE TRIGGER delivery_changed AFTER INSERT OR DELETE OR UPDATE ON public.delivery_stops FOR EACH STATEMENT EXECUTE FUNCTION tell_delivery_changed();

create table destination_limits (
  name text not null,
  connections integer,
  messages_per_connection integer,
  per_minute double precision,
  warm_up_since timestamp with time zone,
  constraint destination_limits_pkey PRIMARY KEY (name),
  constraint destination_limits_connections_check CHECK ((connections > 0)),
  constraint destination_limits_messages_per_connection_check CHECK ((messages_per_connection > 0)),
  constraint destination_limits_per_minute_check CHECK ((per_minute > (0)::double precision))
);

create table dkim_key_pairs (
  workspace_id uuid not null,
  domain_id uuid not null,
  selector text not null,
  algorithm text not null,
  public_key text not null,
  private_key_sealed bytea not null,
  created_at timestamp with time zone not null default app_now(),
  state text not null default 'active'::text,
  activated_at timestamp with time zone,
  retired_at timestamp with time zone,
  constraint dkim_keys_pkey PRIMARY KEY (workspace_id, domain_id, selector),
  constraint dkim_keys_workspace_id_domain_id_fkey FOREIGN KEY (workspace_id, domain_id) REFERENCES domains(workspace_id, id) ON DELETE CASCADE,
  constraint dkim_keys_algorithm_check CHECK ((algorithm = ANY (ARRAY['rsa-sha256'::text, 'ed25519-sha256'::text]))),
  constraint dkim_keys_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'active'::text, 'retired'::text]))),
  constraint retired_since CHECK (((state = 'retired'::text) = (retired_at IS NOT NULL)))
);
CREATE UNIQUE INDEX dkim_keys_signing ON public.dkim_key_pairs USING btree (workspace_id, domain_id, algorithm, state) WHERE (state <> 'retired'::text);

create table domains (
  workspace_id uuid not null,
  id uuid not null,
  name text not null,
  status text not null default 'pending'::text,
  ownership_token text not null,
  created_at timestamp with time zone not null default app_now(),
  verified_at timestamp with time zone,
  return_path_host text,
  vouched boolean not null default false,
  degraded_at timestamp with time zone,
  checked_at timestamp with time zone,
  check_due_at timestamp with time zone,
  checks_unanswered integer not null default 0,
  found json,
  constraint domains_pkey PRIMARY KEY (workspace_id, id),
  constraint domains_workspace_id_name_key UNIQUE (workspace_id, name),
  constraint domains_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint domains_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'verified'::text, 'degraded'::text, 'failed'::text])))
);
CREATE INDEX domains_check_due ON public.domains USING btree (check_due_at) WHERE (check_due_at IS NOT NULL);

create table events (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  type text not null,
  status text not null,
  delivery_rank smallint not null,
  occurred_at timestamp with time zone not null,
  facts json,
  tx xid8 not null default pg_current_xact_id(),
  constraint events_pkey PRIMARY KEY (workspace_id, message_id, sequence)
) partition by RANGE (message_id);
CREATE INDEX events_tx ON ONLY public.events USING btree (workspace_id, tx);
CREATE TRIGGER count_events AFTER INSERT ON public.events REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION count_events();
CREATE TRIGGER webhooks AFTER INSERT ON public.events REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION queue_webhooks();

create table feed_seen (
  feed_id uuid not null,
  token_hash bytea not null,
  body_hash bytea not null,
  seen_at timestamp with time zone not null default app_now(),
  constraint feed_seen_pkey PRIMARY KEY (feed_id, token_hash),
  constraint feed_seen_feed_id_fkey FOREIGN KEY (feed_id) REFERENCES feeds(id) ON DELETE CASCADE
);
CREATE INDEX feed_seen_age ON public.feed_seen USING btree (feed_id, seen_at);

create table feeds (
  id uuid not null,
  workspace_id uuid,
  provider text not null,
  secret_sealed bytea,
  topic text,
  created_at timestamp with time zone not null default app_now(),
  constraint feeds_pkey PRIMARY KEY (id),
  constraint feeds_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint feeds_check CHECK ((((provider = 'ses'::text) = (topic IS NOT NULL)) AND ((provider = 'ses'::text) = (secret_sealed IS NULL)))),
  constraint feeds_provider_check CHECK ((provider = ANY (ARRAY['ses'::text, 'postmark'::text, 'mailgun'::text, 'sendgrid'::text, 'generic'::text])))
);

create table fresh_counts (
  workspace_id uuid not null,
  hour timestamp with time zone not null,
  kind text not null,
  bucket smallint not null,
  many bigint not null
);
alter table fresh_counts replica identity full;
CREATE INDEX fresh_counts_workspace ON public.fresh_counts USING btree (workspace_id);

create table hourly_counts (
  workspace_id uuid not null,
  hour timestamp with time zone not null,
  kind text not null,
  bucket smallint not null,
  many bigint not null,
  constraint hourly_counts_pkey PRIMARY KEY (workspace_id, hour, kind, bucket)
);

create table idempotency_keys (
  workspace_id uuid not null,
  endpoint text not null,
  key text not null,
  body_hash text not null,
  message_id uuid not null,
  created_at timestamp with time zone not null,
  message_ids uuid[],
  constraint idempotency_keys_pkey PRIMARY KEY (workspace_id, endpoint, key)
);
CREATE INDEX idempotency_repeats ON public.idempotency_keys USING btree (created_at) WHERE (endpoint = 'smtp-repeat'::text);
CREATE TRIGGER admit_sent_again BEFORE INSERT ON public.idempotency_keys FOR EACH ROW WHEN ((new.endpoint = 'send_again'::text)) EXECUTE FUNCTION admit_sent_again();

create table installation (
  name text not null,
  value text not null,
  constraint installation_pkey PRIMARY KEY (name)
);

create table invitations (
  workspace_id uuid not null,
  id uuid not null,
  email text not null,
  email_key text not null,
  role text not null,
  token_hash bytea not null,
  invited_by text not null,
  created_at timestamp with time zone not null default app_now(),
  expires_at timestamp with time zone not null,
  constraint invitations_pkey PRIMARY KEY (workspace_id, id),
  constraint invitations_token_hash_key UNIQUE (token_hash),
  constraint invitations_workspace_id_email_key_key UNIQUE (workspace_id, email_key),
  constraint invitations_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'developer'::text, 'viewer'::text])))
);

create table mailboxes (
  workspace_id uuid not null,
  id uuid not null,
  domain_id uuid not null,
  address text not null,
  address_key text not null,
  name text,
  status text not null default 'active'::text,
  created_at timestamp with time zone not null default app_now(),
  constraint mailboxes_pkey PRIMARY KEY (workspace_id, id),
  constraint mailboxes_id_key UNIQUE (id),
  constraint mailboxes_workspace_id_address_key_key UNIQUE (workspace_id, address_key),
  constraint mailboxes_workspace_id_domain_id_fkey FOREIGN KEY (workspace_id, domain_id) REFERENCES domains(workspace_id, id),
  constraint mailboxes_status_check CHECK ((status = ANY (ARRAY['active'::text, 'disabled'::text])))
);

create table members (
  workspace_id uuid not null,
  user_id uuid not null,
  role text not null,
  created_at timestamp with time zone not null default app_now(),
  constraint members_pkey PRIMARY KEY (workspace_id, user_id),
  constraint members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint members_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint members_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'developer'::text, 'viewer'::text])))
);
CREATE INDEX members_user ON public.members USING btree (user_id);

create table messages (
  workspace_id uuid not null,
  id uuid not null,
  mailbox_id uuid not null,
  source text not null,
  status text not null default 'queued'::text,
  delivery_rank smallint not null default 0,
  sequence integer not null,
  sender text not null,
  sender_name text,
  recipient text not null,
  recipient_key text not null,
  subject text not null,
  metadata json,
  accepted_by text not null,
  provider_message_id text,
  error_message text,
  armed_epoch integer,
  armed_token bigint,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  finished_at timestamp with time zone,
  content_expired_at timestamp with time zone,
  constraint messages_pkey PRIMARY KEY (workspace_id, id),
  constraint messages_check CHECK (((finished_at IS NOT NULL) = (status = ANY (ARRAY['sent'::text, 'failed'::text, 'delivery_unknown'::text])))),
  constraint messages_source_check CHECK ((source = ANY (ARRAY['rest'::text, 'smtp'::text, 'notice'::text]))) NOT VALID,
  constraint messages_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'sending'::text, 'sent'::text, 'retrying'::text, 'failed'::text, 'delivery_unknown'::text])))
) partition by RANGE (id);
CREATE INDEX messages_id ON ONLY public.messages USING btree (id);
CREATE INDEX messages_recipient ON ONLY public.messages USING btree (workspace_id, recipient_key, id);
CREATE TRIGGER message_moves BEFORE UPDATE OF status ON public.messages FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION refuse_wrong_move();

create table mta_sts_policies (
  domain text not null,
  id text not null,
  mode text not null,
  mx text[] not null,
  max_age_seconds integer not null,
  fetched_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  constraint mta_sts_policies_pkey PRIMARY KEY (domain),
  constraint mta_sts_policies_mode_check CHECK ((mode = ANY (ARRAY['enforce'::text, 'testing'::text, 'none'::text])))
);
CREATE INDEX mta_sts_policies_expiry ON public.mta_sts_policies USING btree (expires_at);

create table orphaned_replies (
  workspace_id uuid not null,
  message_id uuid not null,
  epoch integer not null,
  token bigint not null,
  ending json not null,
  heard_at timestamp with time zone not null default app_now(),
  constraint orphaned_replies_pkey PRIMARY KEY (workspace_id, message_id, epoch, token)
);

create table outbound (
  message_id uuid not null,
  workspace_id uuid not null,
  mailbox_id uuid not null,
  destination text not null,
  status text not null default 'queued'::text,
  due_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  epoch integer not null default 0,
  token bigint,
  lease_until timestamp with time zone,
  lease_owner uuid,
  armed_epoch integer,
  attempts integer not null default 0,
  evidence text,
  constraint outbound_pkey PRIMARY KEY (message_id),
  constraint armed_while_sending CHECK (((armed_epoch IS NULL) OR ((status = 'sending'::text) AND (armed_epoch = epoch)))),
  constraint lease_while_sending CHECK (((status = 'sending'::text) = (lease_until IS NOT NULL))),
  constraint outbound_evidence_check CHECK ((evidence = ANY (ARRAY['eod_4xx'::text, 'not_written'::text]))),
  constraint outbound_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'retrying'::text, 'sending'::text])))
) with (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_insert_scale_factor=0.2, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=45);
CREATE INDEX outbound_lanes ON public.outbound USING btree (workspace_id, destination, due_at, message_id) WHERE ((lease_until IS NULL) AND (destination <> ''::text));
CREATE INDEX outbound_lease ON public.outbound USING btree (lease_until) WHERE (lease_until IS NOT NULL);
CREATE INDEX outbound_turns ON public.outbound USING btree (workspace_id, due_at, message_id) WHERE ((lease_until IS NULL) AND (attempts >= 0));
CREATE TRIGGER armed_rows_need_evidence BEFORE UPDATE ON public.outbound FOR EACH ROW WHEN (((old.armed_epoch IS NOT NULL) AND (new.status <> 'sending'::text) AND (new.evidence IS NULL))) EXECUTE FUNCTION refuse_unproven_retry();

create table passkey_challenges (
  id uuid not null,
  challenge text not null,
  user_id uuid,
  expires_at timestamp with time zone not null,
  constraint passkey_challenges_pkey PRIMARY KEY (id),
  constraint passkey_challenges_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table passkeys (
  id text not null,
  user_id uuid not null,
  name text not null,
  public_key bytea not null,
  counter bigint not null,
  transports text[] not null,
  created_at timestamp with time zone not null default app_now(),
  last_used_at timestamp with time zone,
  constraint passkeys_pkey PRIMARY KEY (id),
  constraint passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX passkeys_user ON public.passkeys USING btree (user_id);

create table password_resets (
  token_hash bytea not null,
  user_id uuid not null,
  created_at timestamp with time zone not null default app_now(),
  expires_at timestamp with time zone not null,
  constraint password_resets_pkey PRIMARY KEY (token_hash),
  constraint password_resets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX password_resets_user ON public.password_resets USING btree (user_id);

create table plans (
  name text not null,
  api_sending boolean not null default true,
  hourly integer,
  daily integer,
  monthly integer,
  upgrade_url text,
  constraint plans_pkey PRIMARY KEY (name),
  constraint plans_daily_check CHECK ((daily >= 0)),
  constraint plans_hourly_check CHECK ((hourly >= 0)),
  constraint plans_monthly_check CHECK ((monthly >= 0))
);
CREATE TRIGGER access_changed AFTER INSERT OR DELETE OR UPDATE ON public.plans FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();

create table recovery_codes (
  user_id uuid not null,
  code_hash bytea not null,
  constraint recovery_codes_pkey PRIMARY KEY (user_id, code_hash),
  constraint recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table refused_submissions (
  workspace_id uuid not null,
  id uuid not null,
  at timestamp with time zone not null default app_now(),
  source text not null,
  code text not null,
  recipient_domain text,
  field text,
  error text,
  caller_id uuid,
  request_id text,
  sender text,
  constraint refused_submissions_pkey PRIMARY KEY (workspace_id, id),
  constraint refused_submissions_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint refused_submissions_source_check CHECK ((source = ANY (ARRAY['rest'::text, 'smtp'::text])))
);
CREATE INDEX refused_submissions_at ON public.refused_submissions USING btree (at);

create table relayed (
  route uuid not null,
  provider_id text not null,
  workspace_id uuid not null,
  message_id uuid not null,
  at timestamp with time zone not null,
  constraint relayed_pkey PRIMARY KEY (route, provider_id, workspace_id, message_id)
);
CREATE INDEX relayed_at ON public.relayed USING btree (at);

create table removed_workspaces (
  id uuid not null,
  removed_at timestamp with time zone not null default app_now(),
  constraint removed_workspaces_pkey PRIMARY KEY (id)
);

create table report_fingerprints (
  workspace_id uuid not null,
  message_id uuid not null,
  fingerprint bytea not null,
  seen_at timestamp with time zone not null,
  constraint report_fingerprints_pkey PRIMARY KEY (workspace_id, message_id, fingerprint)
);
CREATE INDEX report_fingerprints_seen ON public.report_fingerprints USING btree (seen_at);

create table reports (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  type text not null,
  detail text,
  bounce json,
  source text not null,
  created_at timestamp with time zone not null,
  constraint reports_pkey PRIMARY KEY (workspace_id, message_id, sequence),
  constraint reports_type_check CHECK ((type = ANY (ARRAY['delivered'::text, 'soft_bounce'::text, 'hard_bounce'::text, 'complaint'::text])))
) partition by RANGE (message_id);

create table sandbox_mail (
  id uuid not null,
  received_at timestamp with time zone not null,
  envelope_from text not null,
  recipient text not null,
  content bytea not null,
  workspace_id uuid,
  message_id uuid,
  constraint sandbox_mail_pkey PRIMARY KEY (id)
);
CREATE INDEX sandbox_mail_recipient ON public.sandbox_mail USING btree (recipient, id);
CREATE INDEX sandbox_mail_workspace ON public.sandbox_mail USING btree (workspace_id, id);

create table scans (
  workspace_id uuid not null,
  message_id uuid not null,
  record json not null,
  constraint scans_pkey PRIMARY KEY (workspace_id, message_id)
) partition by RANGE (message_id);

create table sent_again (
  workspace_id uuid not null,
  message_id uuid not null,
  again_id uuid not null,
  at timestamp with time zone not null,
  constraint sent_again_pkey PRIMARY KEY (workspace_id, message_id)
);
CREATE INDEX sent_again_again ON public.sent_again USING btree (workspace_id, again_id);

create table sessions (
  id uuid not null,
  token_hash bytea not null,
  user_id uuid not null,
  created_at timestamp with time zone not null default app_now(),
  seen_at timestamp with time zone not null default app_now(),
  expires_at timestamp with time zone not null,
  address text not null,
  agent text not null,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_token_hash_key UNIQUE (token_hash),
  constraint sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX sessions_expires ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_user ON public.sessions USING btree (user_id);

create table sign_in_guesses (
  name bytea not null,
  count double precision not null,
  at timestamp with time zone not null default app_now(),
  constraint sign_in_guesses_pkey PRIMARY KEY (name)
) with (fillfactor=70);

create table smtp_credentials (
  workspace_id uuid not null,
  id uuid not null,
  name text not null,
  username text not null,
  password_hash bytea not null,
  created_at timestamp with time zone not null default app_now(),
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  expires_at timestamp with time zone,
  constraint smtp_credentials_pkey PRIMARY KEY (workspace_id, id),
  constraint smtp_credentials_id_key UNIQUE (id),
  constraint smtp_credentials_username_key UNIQUE (username),
  constraint smtp_credentials_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
);
CREATE TRIGGER access_changed AFTER DELETE OR UPDATE OF revoked_at ON public.smtp_credentials FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();

create table staged_blobs (
  id uuid not null,
  staged_at timestamp with time zone not null default app_now(),
  constraint staged_blobs_pkey PRIMARY KEY (id)
);

create table suppressions (
  workspace_id uuid not null,
  recipient_key text not null,
  recipient text not null,
  reason text not null,
  source_message_id uuid,
  rule text,
  evidence text,
  created_at timestamp with time zone not null default app_now(),
  created_by text,
  constraint suppressions_pkey PRIMARY KEY (workspace_id, recipient_key),
  constraint suppressions_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint suppressions_reason_check CHECK ((reason = ANY (ARRAY['hard_bounce'::text, 'complaint'::text, 'manual'::text])))
);

create table unmatched_feedback (
  id uuid not null,
  received_at timestamp with time zone not null default app_now(),
  reason text not null,
  source text not null,
  sender text not null,
  addressee text not null,
  facts json not null,
  size_bytes integer not null,
  content bytea not null,
  constraint unmatched_feedback_pkey PRIMARY KEY (id)
);
CREATE INDEX unmatched_feedback_received ON public.unmatched_feedback USING btree (received_at);

create table usage (
  workspace_id uuid not null,
  minutes integer[] not null default array_fill(0, ARRAY[60]),
  minute bigint not null default 0,
  day date not null default '1970-01-01'::date,
  day_count integer not null default 0,
  month date not null default '1970-01-01'::date,
  month_count integer not null default 0,
  constraint usage_pkey PRIMARY KEY (workspace_id),
  constraint usage_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
) with (fillfactor=10);
CREATE INDEX usage_newest ON public.usage USING btree (workspace_id, minute);

create table users (
  id uuid not null,
  email text not null,
  email_key text not null,
  name text,
  password_hash text,
  operator boolean not null default false,
  totp_sealed bytea,
  totp_pending_sealed bytea,
  totp_step bigint not null default 0,
  created_at timestamp with time zone not null default app_now(),
  last_sign_in_at timestamp with time zone,
  constraint users_pkey PRIMARY KEY (id),
  constraint users_email_key_key UNIQUE (email_key)
);

create table webhook_attempts (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  round integer not null,
  attempt integer not null,
  ended_at timestamp with time zone not null,
  delivered boolean not null,
  trouble text,
  status smallint,
  duration_ms integer,
  excerpt text,
  constraint webhook_attempts_pkey PRIMARY KEY (workspace_id, message_id, sequence, round, attempt)
) partition by RANGE (message_id);

create table webhook_endpoints (
  workspace_id uuid not null,
  url text not null,
  types text[],
  api_version text not null,
  state text not null default 'active'::text,
  reason text,
  disabled_at timestamp with time zone,
  secret_sealed bytea not null,
  next_sealed bytea,
  previous_sealed bytea,
  previous_until timestamp with time zone,
  failing_since timestamp with time zone,
  tested_at timestamp with time zone,
  version integer not null default 1,
  created_at timestamp with time zone not null default app_now(),
  told_of timestamp with time zone,
  telling_until timestamp with time zone,
  constraint webhook_endpoints_pkey PRIMARY KEY (workspace_id),
  constraint webhook_endpoints_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  constraint webhook_endpoints_check CHECK (((state = 'disabled'::text) = (reason IS NOT NULL))),
  constraint webhook_endpoints_check1 CHECK (((previous_sealed IS NULL) = (previous_until IS NULL))),
  constraint webhook_endpoints_reason_check CHECK ((reason = ANY (ARRAY['by_hand'::text, 'receiver_gone'::text, 'no_success'::text]))),
  constraint webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text])))
);
CREATE INDEX webhook_endpoints_active ON public.webhook_endpoints USING btree (workspace_id) WHERE (state = 'active'::text);
CREATE INDEX webhook_endpoints_untold ON public.webhook_endpoints USING btree (disabled_at) WHERE ((state = 'disabled'::text) AND (reason <> 'by_hand'::text) AND (told_of IS DISTINCT FROM disabled_at));

create table webhook_queue (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  due_at timestamp with time zone not null,
  round integer not null default 1,
  attempts integer not null default 0,
  lease_until timestamp with time zone,
  lease_owner uuid,
  constraint webhook_queue_pkey PRIMARY KEY (workspace_id, message_id, sequence),
  constraint webhook_queue_check CHECK (((lease_until IS NULL) = (lease_owner IS NULL)))
) with (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_insert_scale_factor=0.2, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=70);
CREATE INDEX webhook_queue_due ON public.webhook_queue USING btree (workspace_id, due_at, message_id, sequence) WHERE (lease_until IS NULL);
CREATE INDEX webhook_queue_lease ON public.webhook_queue USING btree (lease_until) WHERE (lease_until IS NOT NULL);

create table workspaces (
  id uuid not null,
  name text not null,
  status text not null default 'active'::text,
  plan text not null,
  route_sealed bytea,
  created_at timestamp with time zone not null default app_now(),
  keeps_content boolean not null default true,
  removing_since timestamp with time zone,
  own_name text,
  constraint workspaces_pkey PRIMARY KEY (id),
  constraint workspaces_name_key UNIQUE (name),
  constraint workspaces_plan_fkey FOREIGN KEY (plan) REFERENCES plans(name),
  constraint blocked_while_removing CHECK (((removing_since IS NULL) OR (status = 'blocked'::text))),
  constraint workspaces_status_check CHECK ((status = ANY (ARRAY['active'::text, 'blocked'::text])))
);
CREATE INDEX workspaces_removing ON public.workspaces USING btree (id) WHERE (removing_since IS NOT NULL);
CREATE TRIGGER access_changed AFTER DELETE OR UPDATE ON public.workspaces FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();

create view dkim_keys as
 SELECT workspace_id,
    domain_id,
    selector,
    algorithm,
    public_key,
    private_key_sealed,
    created_at,
    state,
    activated_at,
    retired_at
   FROM dkim_key_pairs
  WHERE (algorithm = 'rsa-sha256'::text);

CREATE OR REPLACE FUNCTION public.admit_2(batch json, charged uuid[], commit_them boolean, with_files boolean)
 RETURNS TABLE(n integer, admitted boolean, sender text, suppressed boolean, repeated_id uuid, repeated_ids uuid[], repeated_hash text, workspace_id uuid, at timestamp with time zone, hourly integer, daily integer, monthly integer, hour_used integer, day_used integer, month_used integer, hour_resets integer, day_resets integer, month_resets integer)
 LANGUAGE plpgsql
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  missing bigint;
  now_at timestamptz := app_now();
  now_minute bigint := minute_of(app_now());
  today date := (app_now() at time zone 'UTC')::date;
  this_month date := date_trunc('month', app_now() at time zone 'UTC')::date;
begin
  if commit_them then
    -- Quota rows first, in the order of their keys: every admission takes them in this order, so no two wait for each other.
    perform 1 from (select x.id from unnest(charged) x (id) order by x.id) c cross join lateral (
      select from usage u where u.workspace_id = c.id order by u.minute desc limit 1 for update) held;
  end if;
  return query
  with submitted as materialized (
    select * from json_to_recordset(batch) as s (
      n integer, g integer, size integer, id uuid, w uuid, mailbox uuid, source text, recipient text, recipient_key text, destination text,
      subject text, body text, body_blob uuid, form text, shares_blobs boolean, metadata json, expires timestamptz, accepted_by text, age_ms bigint,
      endpoint text, idem text, hash text, keep_ms bigint, ids uuid[])
  ),
  quota as materialized (
    select u.workspace_id, p.hourly, p.daily, p.monthly, c.minute at_minute, c.day at_day, c.month at_month,
           hour_count(u.minutes, u.minute, c.minute) hour_used,
           case when u.day = c.day then u.day_count else 0 end day_used,
           case when u.month = c.month then u.month_count else 0 end month_used,
           u.minutes, u.minute, u.row
      from unnest(charged) x (id) cross join lateral (select y.*, y.ctid row from usage y where y.workspace_id = x.id order by y.minute desc limit 1) u
           join workspaces w on w.id = u.workspace_id join plans p on p.name = w.plan
           cross join lateral charged_at(u.minute, now_minute) c
  ),
  seen as materialized (
    select s.*, box.address sender, box.name sender_name, repeated.message_id repeated_id, repeated.message_ids repeated_ids,
           repeated.body_hash repeated_hash, no.recipient_key is not null suppressed
      from submitted s
      left join lateral (
        select m.address, m.name from mailboxes m join domains d on d.workspace_id = m.workspace_id and d.id = m.domain_id
         where m.workspace_id = s.w and m.id = s.mailbox and m.status = 'active' and d.status in ('verified', 'degraded') limit 1) box on true
      left join lateral (
        select k.message_id, k.message_ids, k.body_hash from idempotency_keys k
         where s.idem is not null and k.workspace_id = s.w and k.endpoint = s.endpoint and k.key = s.idem
           and (s.keep_ms is null or k.created_at > now_at - s.keep_ms * interval '1 millisecond') limit 1) repeated on true
      left join lateral (
        select x.recipient_key from suppressions x
         where x.workspace_id = s.w and x.recipient_key = s.recipient_key limit 1) no on true
  ),
  spoiled as materialized (
    select coalesce(array_agg(e.g), '{}') groups from seen e where e.sender is null or e.suppressed or e.repeated_id is not null
  ),
  welcome as (
    select e.*, q.hourly, q.daily, q.monthly, q.hour_used, q.day_used, q.month_used,
           commit_them and e.g <> all ((select groups from spoiled)::integer[])
             and (q.hourly is null or q.hour_used + e.size <= q.hourly)
             and (q.daily is null or q.day_used + e.size <= q.daily)
             and (q.monthly is null or q.month_used + e.size <= q.monthly) eligible
      from seen e join quota q on q.workspace_id = e.w
  ),
  ranked as (
    -- the place of the last row of the group: its rows follow each other
    select c.*, row_number() over (partition by c.w, c.eligible order by c.n) - (c.n - c.g) + c.size - 1 rank from welcome c
  ),
  judged as materialized (
    select r.*, r.eligible and (r.hourly is null or r.hour_used + r.rank <= r.hourly)
                           and (r.daily is null or r.day_used + r.rank <= r.daily)
                           and (r.monthly is null or r.month_used + r.rank <= r.monthly) admitted
      from ranked r
  ),
  admitted as not materialized (select j.* from judged j where j.admitted),
  charges as materialized (
    select q.*, coalesce(a.many, 0) many
      from quota q left join lateral (select count(*)::integer many from admitted a where a.w = q.workspace_id) a on true
  ),
  charge as (
    update usage u
       set minutes = charge_minute(u.minutes, u.minute, c.at_minute, c.many), minute = c.at_minute,
           day = c.at_day, day_count = c.day_used + c.many, month = c.at_month, month_count = c.month_used + c.many
      from charges c where u.ctid = c.row and c.many > 0
  ),
  record as (
    insert into messages (workspace_id, id, mailbox_id, source, sequence, sender, sender_name, recipient, recipient_key, subject, metadata,
                          accepted_by, created_at, expires_at)
    select a.w, a.id, a.mailbox, a.source, 1, a.sender, a.sender_name, a.recipient, a.recipient_key, a.subject, a.metadata,
           a.accepted_by, now_at, a.expires from admitted a
  ),
  content as (
    insert into contents (workspace_id, message_id, body_text, body_blob, form, shares_blobs)
    select a.w, a.id, a.body, a.body_blob, coalesce(a.form, 'text'), coalesce(a.shares_blobs, false) from admitted a
  ),
  queue as (
    insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
    select a.id, a.w, a.mailbox, a.destination, now_at,
           least(coalesce(a.expires, 'infinity'), now_at + a.age_ms * interval '1 millisecond') from admitted a
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
    select a.w, a.id, 1, 'message.queued', 'queued', 0, now_at from admitted a
  ),
  repeatable as (
    -- a key that does not count any more is taken over
    insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id, message_ids, created_at)
    select a.w, a.endpoint, a.idem, a.hash, a.id, a.ids, now_at from admitted a where a.idem is not null
    on conflict (workspace_id, endpoint, key) do update
       set body_hash = excluded.body_hash, message_id = excluded.message_id, message_ids = excluded.message_ids, created_at = now_at
  )
  select j.n, j.admitted, j.sender, j.suppressed, j.repeated_id, j.repeated_ids, j.repeated_hash,
         null, null, null, null, null, null, null, null, null, null, null
    from judged j
  union all
  select null, null, null, null, null, null, null, c.workspace_id, now_at, c.hourly, c.daily, c.monthly,
         c.hour_used + c.many, c.day_used + c.many, c.month_used + c.many,
         case when c.hourly is not null then
           60 * (60 - coalesce((
             select max(h.age) from (
               select t.age, t.charged, sum(t.charged) over (order by t.age desc) gone from trailing_hour(c.minutes, c.minute, c.at_minute) t) h
              where h.charged > 0 and h.gone > c.hour_used + c.many - c.hourly), 0))
             - extract(second from now_at)::integer end,
         extract(epoch from (today + 1)::timestamp - (now_at at time zone 'UTC'))::integer,
         extract(epoch from this_month + interval '1 month' - (now_at at time zone 'UTC'))::integer
    from charges c;
  if commit_them and with_files then
    -- Apart, because few have any: what a statement may have to do costs time even where there is nothing to do.
    with admitted as materialized (
      select s.* from json_to_recordset(batch) as s (id uuid, w uuid, body_blob uuid, files json, chunks json)
        cross join lateral (select from contents c where c.workspace_id = s.w and c.message_id = s.id limit 1) is_there
    ),
    files as materialized (
      select a.w, a.id, f.* from admitted a cross join lateral json_to_recordset(a.files) as f (
        position smallint, filename text, content_type text, size integer, blob uuid) where a.files is not null
    ),
    attached as (
      insert into attachments (workspace_id, message_id, position, filename, content_type, size_bytes, blob_id)
      select f.w, f.id, f.position, f.filename, f.content_type, f.size, f.blob from files f
    ),
    inlined as (
      insert into blobs (id, part, bytes)
      select c.blob, 0, decode(c.bytes, 'base64') from admitted a cross join lateral json_to_recordset(a.chunks) as c (blob uuid, bytes text)
       where a.chunks is not null
    ),
    needed as (
      select f.blob from files f join admitted a on a.w = f.w and a.id = f.id where a.chunks is null
      union
      select a.body_blob from admitted a where a.body_blob is not null
    ),
    adopted as (
      delete from staged_blobs b using needed n where b.id = n.blob returning b.id
    )
    select (select count(*) from needed) - (select count(*) from adopted) into missing;
    if missing > 0 then
      raise exception 'content that was staged is not there any more' using errcode = 'PH003';
    end if;
  end if;
  if commit_them then
    perform tell_1('posthorn_due'); -- heard after the commit, once for the batch
  end if;
end $function$;
CREATE OR REPLACE FUNCTION public.admit_sent_again()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  first uuid := substr(new.key, 1, 36)::uuid;
begin
  perform 1 from messages m where m.workspace_id = new.workspace_id and m.id = first for share skip locked;
  if not found and exists (select from messages m where m.workspace_id = new.workspace_id and m.id = first) then
    raise exception 'message % is held by somebody', new.key using errcode = 'object_in_use';
  end if;
  if not exists (
    select from messages m
     where m.workspace_id = new.workspace_id and m.id = first
       and (m.status = 'failed' and m.delivery_rank not in (2, 5)
            or m.status = 'delivery_unknown' and m.finished_at <= app_now() - substr(new.key, 38)::integer * interval '1 second')) then
    raise exception 'message % may not be sent again', new.key using errcode = 'PH001';
  end if;
  insert into sent_again (workspace_id, message_id, again_id, at) values (new.workspace_id, first, new.message_id, app_now());
  return new;
end $function$;
CREATE OR REPLACE FUNCTION public.app_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$ select now() $function$;
CREATE OR REPLACE FUNCTION public.arm_5(ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint)
 RETURNS TABLE(id uuid, epoch integer, answer text, counter double precision)
 LANGUAGE plpgsql
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
declare
  own tid;
  raised float8;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  -- Held before it is raised: a row that changed under the second statement would look like a node that is behind.
  select n.ctid into own from delivering_nodes n where n.id = node order by n.thousand desc limit 1 for update;
  update delivering_nodes n set counter = n.counter + 1
   where n.ctid = own and n.counter >= mark and not exists (select from delivery_stops) returning n.counter::float8 into raised;
  if raised is null then
    if not exists (select from delivery_stops) then
      perform stop_delivery_1('fence', 'behind', json_build_object('node', (select n.name from delivering_nodes n where n.id = node), 'mark', mark,
        'counter', (select n.counter from delivering_nodes n where n.id = node)));
    end if;
    return query select a.id, a.epoch, 'halted', null::float8 from unnest(ids, epochs) as a (id, epoch);
    return;
  end if;
  return query
  with asked as materialized (
    select a.id, a.epoch, a.token, o.row,
           case when o.expires_at <= app_now() then 'expired'
                when w.active is null then 'workspace_blocked'
                when d.usable is null then 'mailbox_not_active'
                when s.suppressed then 'suppressed'
           end verdict
      from unnest(ids, epochs, tokens, keys) as a (id, epoch, token, key)
      cross join lateral (
        select x.ctid row, x.workspace_id, x.mailbox_id, x.expires_at from outbound x
         where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
      left join lateral (select true active from workspaces x where x.id = o.workspace_id and x.status = 'active' limit 1) w on true
      left join lateral (
        select x.domain_id from mailboxes x
         where x.workspace_id = o.workspace_id and x.id between o.mailbox_id and o.mailbox_id and x.status = 'active' order by x.id limit 1) b on true
      left join lateral (
        select true usable from domains x
         where x.workspace_id = o.workspace_id and x.id between b.domain_id and b.domain_id and x.status in ('verified', 'degraded') order by x.id limit 1) d on true
      left join lateral (select true suppressed from suppressions x where x.workspace_id = o.workspace_id and x.recipient_key = a.key limit 1) s on true
  ),
  armed as (
    update outbound o set armed_epoch = j.epoch from asked j
     where j.verdict is null and o.ctid = j.row
       and o.epoch = j.epoch and o.token = j.token and o.status = 'sending' and o.armed_epoch is null and (o.lease_until <= app_now()) is false
    returning o.message_id, o.epoch
  )
  select a.message_id, a.epoch, 'armed', raised from armed a
  union all
  select j.id, j.epoch, j.verdict, raised from asked j where j.verdict is not null;
end $function$;
CREATE OR REPLACE FUNCTION public.assume_sent_2(since timestamp with time zone, till timestamp with time zone, after uuid, most integer)
 RETURNS TABLE(moved integer, last uuid)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  ids uuid[];
begin
  ids := array(select o.message_id from outbound o where o.message_id > after order by o.message_id limit most for update);

  return query
  with seen as materialized (select o.* from outbound o where o.message_id = any (ids)),
  -- What was accepted after the stop, or was not due before it, cannot have been sent; nor what had expired before `since`. But two kinds of what waits may have
  -- gone before the time that its row names, and a database that was put back does not know of it. What was under way when delivery stopped, and was put off or
  -- handed back by its worker since: another one may have had it meanwhile. And what waits because nobody was found: it is made due when they are there
  -- again (docs/decisions/0089). Where they said something before the stop, it waits for its time.
  chosen as materialized (
    select s.* from seen s
      cross join lateral (select x.created_at from messages x where x.workspace_id = s.workspace_id and x.id = s.message_id limit 1) m
      left join lateral (
        select a.ended_at > till since_then, a.facts -> 'smtp' -> 'code' is not null answered from attempts a
         where a.workspace_id = s.workspace_id and a.message_id = s.message_id and a.epoch = s.epoch limit 1) a on true
     where m.created_at <= till and s.expires_at > since
       and (s.status = 'sending' or s.due_at <= till
            or s.status = 'retrying' and (a.since_then or s.attempts > 0 and a.answered is not true))
  ),
  gone as (
    delete from outbound o using chosen c where o.message_id = c.message_id
  ),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = now_at,
           error_message = 'The database was restored, and the operator assumes that the message was sent meanwhile. It is not sent again.',
           armed_epoch = c.armed_epoch, armed_token = case when c.armed_epoch is not null then c.token end
      from chosen c where m.workspace_id = c.workspace_id and m.id = c.message_id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, now_at,
           json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
      from record r
  )
  select (select count(*)::integer from record), (select s.message_id from seen s order by s.message_id desc limit 1);
end $function$;
CREATE OR REPLACE FUNCTION public.begin_removal_1(space uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform 1 from usage u where u.workspace_id = space for update;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'unfinished';
  end if;
  update workspaces w set status = 'blocked', removing_since = coalesce(w.removing_since, app_now()) where w.id = space;
  delete from usage u where u.workspace_id = space;
  return 'begun';
end $function$;
CREATE OR REPLACE FUNCTION public.cancel_waiting_2(space uuid, most integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  now_at timestamptz := app_now();
  mine record;
  ids uuid[] := '{}';
begin
  if is_unknown_server_1() then return 0; end if;
  for mine in
    select o.message_id, o.workspace_id from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0
       and exists (select from workspaces w where w.id = space and w.status = 'blocked')
       and not exists (select from delivery_stops s where s.kind <> 'drain')
     order by o.due_at, o.message_id for update of o skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    -- A record that is not there holds up nothing.
    continue when not found and exists (select from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id);
    ids := ids || mine.message_id;
    exit when cardinality(ids) >= most;
  end loop;
  if cardinality(ids) = 0 then return 0; end if;

  with waiting as materialized (
    select o.workspace_id, o.message_id from outbound o where o.message_id = any (ids) order by o.message_id
  ),
  gone as (
    delete from outbound o using waiting x where o.message_id = x.message_id
  ),
  record as (
    update messages m
       set status = 'failed', sequence = m.sequence + 1, finished_at = now_at,
           error_message = 'The workspace was blocked before the message could be delivered.'
      from waiting x where m.workspace_id = x.workspace_id and m.id = x.message_id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message
  )
  insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
  select r.workspace_id, r.id, r.sequence, 'message.failed', 'failed', r.delivery_rank, now_at,
         json_build_object('reason', 'workspace_blocked', 'errorMessage', r.error_message)
    from record r;
  return cardinality(ids);
end $function$;
CREATE OR REPLACE FUNCTION public.charge_minute(minutes integer[], minute bigint, at bigint, charge integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  place integer := at % 60 + 1;
begin
  if at <> minute then
    minutes := array(
      select case when at - (at - slot) % 60 <= minute and at - (at - slot) % 60 > minute - 60 and slot <> at % 60 then minutes[slot + 1] else 0 end
        from generate_series(0, 59) slot order by slot);
  end if;
  minutes[place] := minutes[place] + charge;
  return minutes;
end $function$;
CREATE OR REPLACE FUNCTION public.charged_at(last_minute bigint, now_minute bigint)
 RETURNS TABLE(minute bigint, day date, month date)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select at.minute, (to_timestamp(at.minute * 60) at time zone 'UTC')::date,
         date_trunc('month', to_timestamp(at.minute * 60) at time zone 'UTC')::date
    from (select case when last_minute - now_minute between 1 and 59 then last_minute else now_minute end as minute) at
$function$;
CREATE OR REPLACE FUNCTION public.check_in_1(node uuid, node_name text, mark bigint, mark_era bigint, forgotten_ms bigint)
 RETURNS TABLE(counter double precision, era double precision, trouble text, server_known boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  here record;
  mine delivering_nodes;
  era_now bigint;
  first_use boolean;
  found_wrong text;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  select * into here from delivery_server();
  select * into mine from delivering_nodes n where n.id = node for update;
  -- A stop that stands here since before this server took over may have been over by then, and delivery gone on: it stands since now.
  if here.timeline <> (select i.value from installation i where i.name in ('timeline', 'timeline_seen') order by i.name desc limit 1) then
    delete from delivery_stops where kind = 'pause';
    update delivery_stops set since = stopped_at_1() where kind = 'fence';
  end if;
  perform remember_installation('timeline_seen', here.timeline);
  era_now := coalesce((select i.value::bigint from installation i where i.name = 'era'), 0);
  -- A database without a message has nothing that could be sent twice.
  first_use := not exists (select from messages);
  if mark_era > era_now then
    if first_use then
      era_now := mark_era;
      perform remember_installation('era', era_now::text);
    else
      perform remember_installation('era_seen', greatest(mark_era, (select i.value::bigint from installation i where i.name = 'era_seen'))::text);
    end if;
  end if;
  found_wrong := case
    when first_use then null
    when mark_era > era_now then 'behind'
    when mark_era = era_now and (mine.id is null or mine.counter < mark) then 'behind'
    -- A machine without a mark, over mail that others may have sent meanwhile. A node that delivers from this very database vouches for it, by
    -- a lock that no copy inherits; and where nobody ever delivered, or nobody since the operator decided, there is nothing to vouch for.
    when mark is null and exists (select from outbound)
      and exists (select from delivering_nodes n where n.counter > 0 and coalesce(n.era, era_now) = era_now)
      and not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 7364 and l.objid = 2 and l.objsubid = 2 and l.granted
                       and l.database = (select d.oid from pg_database d where d.datname = current_database())) then 'no_mark'
    when here.system_identifier <> (select i.value from installation i where i.name = 'system_identifier') then 'another_server'
    end;
  if found_wrong is not null then
    perform stop_delivery_1('fence', found_wrong,
      json_build_object('node', node_name, 'mark', mark, 'counter', mine.counter, 'system', here.system_identifier));
  end if;

  insert into delivering_nodes as n (id, name, counter, timeline, confirmed_at, era)
    values (node, node_name, case when found_wrong is null then coalesce(mark, 0) else 0 end,
            case when found_wrong is null then here.timeline end, app_now(), case when found_wrong is null then era_now end)
    on conflict (id) do update
      set name = excluded.name, counter = greatest(n.counter, excluded.counter), timeline = coalesce(excluded.timeline, n.timeline),
          era = coalesce(excluded.era, n.era),
          confirmed_at = case when found_wrong is null then excluded.confirmed_at else n.confirmed_at end;

  if found_wrong is null then
    if first_use then
      perform remember_installation('system_identifier', here.system_identifier);
      perform remember_installation('timeline', here.timeline);
    end if;
    -- Servers that do not say who they are give nothing to compare.
    insert into installation (name, value)
      select v.name, v.value from (values ('system_identifier', here.system_identifier), ('timeline', here.timeline)) v (name, value)
       where v.value is not null
      on conflict do nothing;
    if here.timeline <> (select i.value from installation i where i.name = 'timeline') then
      -- A failover: what another node armed last may be lost, and only its own file knows. If it is the first that it ever armed, its row says nothing of it.
      if exists (select from delivering_nodes n where n.timeline is distinct from here.timeline and is_awaited_1(n.counter, n.confirmed_at, forgotten_ms)) then
        perform stop_delivery_1('pause', 'timeline', json_build_object('timeline', here.timeline));
      else
        perform remember_installation('timeline', here.timeline);
        delete from delivery_stops s where s.kind = 'pause';
      end if;
    end if;
  end if;
  return query
    select case when found_wrong is null then n.counter else coalesce(mark, 0) end::float8,
           case when found_wrong is null or mark is null then era_now else mark_era end::float8,
           found_wrong, here.system_identifier is not null and here.timeline is not null
      from delivering_nodes n where n.id = node;
end $function$;
CREATE OR REPLACE FUNCTION public.content_expired_since(workspace uuid, finished timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
  select case when since <= app_now() then since end from (
    select case when (select w.keeps_content from workspaces w where w.id = workspace) then
             finished + coalesce((select i.value from installation i where i.name = 'keep_content_days'), '7')::integer * interval '1 day'
           else finished end since) s
$function$;
CREATE OR REPLACE FUNCTION public.count_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into fresh_counts (workspace_id, hour, kind, bucket, many)
  select e.workspace_id, date_trunc('hour', e.occurred_at, 'UTC'), substr(e.type, 9),
         case when e.type = 'message.sent' then floor(4 / ln(2::float8) * ln(1 + greatest(0, extract(epoch from e.occurred_at)::float8 * 1000
           - ('x' || substr(replace(e.message_id::text, '-', ''), 1, 12))::bit(48)::bigint)))::smallint
         else 0 end,
         count(*)
    from written e where e.type <> 'message.sending'
   group by 1, 2, 3, 4;
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.dated_partitions()
 RETURNS TABLE(parent text, child text, ends timestamp with time zone, low uuid, high uuid)
 LANGUAGE sql
 STABLE
AS $function$
  select p.relname::text, c.relname::text,
         to_timestamp(('x' || substr(replace(split_part(bound, '''', 4), '-', ''), 1, 12))::bit(48)::bigint / 1000.0),
         split_part(bound, '''', 2)::uuid, split_part(bound, '''', 4)::uuid
    from pg_inherits i join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
         cross join lateral pg_get_expr(c.relpartbound, c.oid) bound
   where p.relnamespace = quote_ident(current_schema())::regnamespace and p.relname in (select d.parent from partition_days() d)
     and bound like 'FOR VALUES FROM (''%'') TO (''%'')'
   order by 3, 1
$function$;
CREATE OR REPLACE FUNCTION public.decisive_replies_1(batch json)
 RETURNS TABLE(w uuid, id uuid, epoch integer, token bigint)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select distinct on (a.id) a.w, a.id, a.epoch, a.token from endings_of(batch) a
   where a.status in ('sent', 'failed') and proves_reply(a.status, a.evidence, a.facts)
   order by a.id, (a.status = 'sent') desc, a.epoch desc
$function$;
CREATE OR REPLACE FUNCTION public.delete_astray_2(keep json, most integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  plan record;
  gone integer;
  most_gone integer := 0;
  -- What the queues may still need, as detach_expired_2 has it.
  needed timestamptz := (select to_timestamp(('x' || substr(replace(o.message_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) - interval '1 day'
                           from outbound o order by o.message_id limit 1);
  untold uuid := oldest_untold_1();
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return 0; end if;
  for plan in select p.parent || '_default' astray, case when p.parent in ('messages', 'blobs') then 'id' else 'message_id' end key, p.days,
                     app_now() - (keep ->> p.parent)::integer * interval '1 day' kept_since,
                     case when p.parent in ('messages', 'reports') then 'created_at' when p.parent = 'events' then 'occurred_at'
                          when p.parent in ('attempts', 'webhook_attempts') then 'ended_at' end written,
                     case when p.parent in ('messages', 'events', 'reports') then untold end untold
                from partition_days() p loop
    execute format('delete from %I where ctid = any (array(select ctid from %1$I where %I < %L%s%s limit %s))', plan.astray, plan.key,
      uuid_floor(least(plan.kept_since - plan.days * interval '1 day', needed)),
      case when plan.written is not null then format(' and %I < %L', plan.written, plan.kept_since) end,
      case when plan.untold is not null then format(' and %I < %L', plan.key, plan.untold) end, most);
    get diagnostics gone = row_count;
    most_gone := greatest(most_gone, gone);
  end loop;
  return most_gone;
end $function$;
CREATE OR REPLACE FUNCTION public.delivery_server(OUT system_identifier text, OUT timeline text)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  begin
    system_identifier := (select s.system_identifier::text from pg_control_system() s);
  exception when others then null;
  end;
  begin
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception when others then null;
  end;
end $function$;
CREATE OR REPLACE FUNCTION public.detach_expired_2(keep json)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  old record;
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return null; end if;
  select d.* into old from dated_partitions() d
   where d.ends + (keep ->> d.parent)::integer * interval '1 day' < app_now()
     and not exists (select from outbound o where o.message_id >= d.low and o.message_id < uuid_floor(d.ends + interval '1 day'))
     and not (d.parent in ('messages', 'events', 'reports') and exists (
       select from webhook_endpoints e cross join lateral (
         select from webhook_queue q where q.workspace_id = e.workspace_id and q.message_id >= d.low and q.message_id < d.high limit 1) waits
        where e.state = 'active'))
   limit 1;
  if not found then return null; end if;
  set local lock_timeout = '100ms';
  execute format('alter table %I detach partition %I', old.parent, old.child);
  execute format('alter table %I rename to %I', old.child, 'expired_' || old.child);
  return 'expired_' || old.child;
exception when lock_not_available or deadlock_detected then
  return 'busy';
end $function$;
CREATE OR REPLACE FUNCTION public.drop_expired_1()
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  name text;
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return null; end if;
  select c.relname into name from pg_class c
   where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind = 'r' and c.relname like 'expired\_%\_20%' order by 1 limit 1;
  if found then execute format('drop table %I', name); end if;
  return name;
end $function$;
CREATE OR REPLACE FUNCTION public.drop_unwanted_contents_1(most integer)
 RETURNS integer
 LANGUAGE sql
AS $function$
  with unwanted as materialized (
    select c.workspace_id, c.message_id, c.body_blob, c.shares_blobs from workspaces w
      cross join lateral (
        -- content by content: as a join it went along all records that are kept
        select x.* from contents x cross join lateral (
          select m.finished_at from messages m where m.workspace_id = x.workspace_id and m.id = x.message_id limit 1) record
         where x.workspace_id = w.id and record.finished_at is not null
         limit most) c
     where not w.keeps_content limit most
  ),
  content as (
    delete from contents c using unwanted u where c.workspace_id = u.workspace_id and c.message_id = u.message_id
  ),
  file as (
    delete from attachments a using unwanted u where a.workspace_id = u.workspace_id and a.message_id = u.message_id
    returning a.blob_id, u.shares_blobs
  ),
  blob as (
    -- what other recipients of the same DATA still need goes with its partition
    delete from blobs b using (select f.blob_id from file f where not f.shares_blobs
                               union select u.body_blob from unwanted u where u.body_blob is not null and not u.shares_blobs) gone
     where b.id = gone.blob_id
  )
  select count(*)::integer from unwanted
$function$;
CREATE OR REPLACE FUNCTION public.drop_unwanted_contents_2(space uuid, after uuid, most integer, blobs_most integer)
 RETURNS uuid
 LANGUAGE sql
AS $function$
  with seen as materialized (
    select c.message_id, c.body_blob, c.shares_blobs from contents c
     where c.workspace_id = space and c.message_id > after and exists (select from workspaces w where w.id = space and not w.keeps_content)
     order by c.message_id limit most),
  final as materialized (
    -- content by content: as a join it went along all records that are kept
    select s.*, s.body_blob is not null or exists (select from attachments a where a.workspace_id = space and a.message_id = s.message_id) apart
      from seen s cross join lateral (select m.finished_at from messages m where m.workspace_id = space and m.id = s.message_id limit 1) record
     where record.finished_at is not null),
  turns as materialized (
    select f.*, count(*) filter (where f.apart) over (order by f.message_id) nth from final f),
  unwanted as materialized (
    select t.* from turns t where t.nth <= blobs_most),
  content as (
    delete from contents c using unwanted u where c.workspace_id = space and c.message_id = u.message_id),
  file as (
    delete from attachments a using unwanted u where a.workspace_id = space and a.message_id = u.message_id
    returning a.blob_id, u.shares_blobs),
  blob as (
    -- what other recipients of the same DATA still need goes with its partition
    delete from blobs b using (select f.blob_id from file f where not f.shares_blobs
                               union select u.body_blob from unwanted u where u.body_blob is not null and not u.shares_blobs) gone
     where b.id = gone.blob_id)
  select case when (select count(*) from turns) > (select count(*) from unwanted)
              then (select u.message_id from unwanted u order by u.message_id desc limit 1)
              else (select s.message_id from seen s order by s.message_id desc limit 1) end
$function$;
CREATE OR REPLACE FUNCTION public.end_removal_1(space uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  name text;
  waits boolean;
begin
  perform 1 from workspaces w where w.id = space and w.removing_since is not null for update;
  if not found then return 'gone'; end if;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'outbound';
  end if;
  for name in select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
               where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind = 'r' and a.attname = 'workspace_id' and not a.attisdropped
                 and exists (select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null)
               order by 1 loop
    begin
      execute format('select exists (select from %I where workspace_id = $1)', name) into waits using space;
      if waits then return name; end if;
    exception when undefined_table then null;
    end;
  end loop;
  begin
    delete from workspaces w where w.id = space;
  exception when foreign_key_violation then
    return 'workspaces';
  end;
  insert into removed_workspaces (id) values (space) on conflict (id) do nothing;
  return 'removed';
end $function$;
CREATE OR REPLACE FUNCTION public.end_removal_2(space uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform 1 from workspaces w where w.id = space and w.removing_since is not null for update;
  if not found then return 'gone'; end if;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'outbound';
  end if;
  begin
    delete from workspaces w where w.id = space;
  exception when foreign_key_violation then
    return 'workspaces';
  end;
  insert into removed_workspaces (id) values (space) on conflict (id) do nothing;
  return 'removed';
end $function$;
CREATE OR REPLACE FUNCTION public.end_webhooks_3(batch json, failing_ms double precision)
 RETURNS TABLE(workspace_id uuid, reason text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  long_ago timestamptz := app_now() - failing_ms * interval '1 millisecond';
begin
  -- Endpoints first, and then rows of the queue by their keys: `e.many` is known before the first of those is locked.
  perform 1
    from (
      with result as materialized (
        select r.w, r.m, r.s, r.asked, r.delivered, not r.delivered and r.delay_ms is null and r.status = 410 gone from webhook_results_of_2(batch) r),
      endpoint as materialized (
        select count(*) many
          from (select r.w, bool_or(r.delivered) well, bool_or(r.gone) gone from result r where r.asked group by r.w order by r.w) t
               cross join lateral (
                 select from webhook_endpoints e where e.workspace_id = t.w and ((e.failing_since is null) <> t.well or t.gone or e.failing_since <= long_ago)
                  limit 1 for update) e
      )
      select locked.many from endpoint e cross join lateral (
        select count(*) many
          from (select r.w, r.m, r.s from result r where e.many >= 0 order by r.w, r.m, r.s) r
               cross join lateral (
                 select from webhook_queue q where q.workspace_id = r.w and q.message_id = r.m and q.sequence = r.s limit 1 for update) q
      ) locked
    ) both_kinds where both_kinds.many >= 0;

  return query
  with ended as materialized (
    select r.*, q.row from webhook_results_of_2(batch) r left join lateral (
      select x.ctid row from webhook_queue x
       where x.workspace_id = r.w and x.message_id = r.m and x.sequence = r.s and x.lease_owner = r.claim limit 1) q on true
  ),
  gone as (
    delete from webhook_queue q using ended e where q.ctid = e.row and e.asked and e.delay_ms is null
  ),
  again as (
    update webhook_queue q
       set lease_until = null, lease_owner = null,
           due_at = case when e.asked then now_at + e.delay_ms * interval '1 millisecond' else q.due_at end,
           attempts = q.attempts - case when e.asked then 0 else 1 end
      from ended e where q.ctid = e.row and not (e.asked and e.delay_ms is null)
  ),
  log as (
    insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, trouble, status, duration_ms, excerpt)
    select e.w, e.m, e.s, e.round, e.attempt, now_at, e.delivered, e.trouble, e.status, e.ms, e.excerpt from ended e where e.asked
    on conflict do nothing
  ),
  told as materialized (
    select e.w, bool_or(e.delivered) well, bool_or(not e.delivered and e.delay_ms is null and e.status = 410 and e.row is not null) gone,
           -- Of the versions that answered so, the newest; null where an older release has not said.
           max(e.v) filter (where not e.delivered and e.delay_ms is null and e.status = 410 and e.row is not null) gone_version,
           max(e.v) filter (where not e.delivered) failed_version
      from ended e where e.asked group by e.w
  ),
  changed as (
    update webhook_endpoints p
       set failing_since = case when t.well then null else coalesce(p.failing_since, now_at) end,
           state = case when x.why is null then p.state else 'disabled' end,
           reason = coalesce(x.why, p.reason),
           disabled_at = case when x.why is null then p.disabled_at else now_at end,
           version = p.version + case when x.why is null then 0 else 1 end
      from told t cross join lateral (
        select e.workspace_id, e.version,
               case when e.state <> 'active' then null
                    when t.gone and coalesce(t.gone_version, e.version) = e.version then 'receiver_gone'
                    when t.well then null
                    when e.failing_since <= long_ago then 'no_success' end why
          from webhook_endpoints e
         where e.workspace_id = t.w and ((e.failing_since is null) <> t.well or t.gone or e.failing_since <= long_ago)
           and (t.well or coalesce(t.failed_version, e.version) = e.version) limit 1) x
     where p.workspace_id = x.workspace_id and p.version = x.version
    returning p.workspace_id, x.why
  )
  select c.workspace_id, c.why from changed c where c.why is not null
  union all
  (select null::uuid, null::text from ended e cross join lateral (
     -- the events of this message first, along the key, and then which of them are due
     select x.lease_until, x.due_at from webhook_queue x
      where x.workspace_id = e.w and x.message_id = e.m and x.sequence > e.s offset 0) later
    where later.lease_until is null and later.due_at <= now_at limit 1);
end $function$;
CREATE OR REPLACE FUNCTION public.endings_of(batch json)
 RETURNS TABLE(id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean, outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json, suppress boolean, rule text)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select * from json_to_recordset(batch) as a (
    id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
    outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
    suppress boolean, rule text)
$function$;
CREATE OR REPLACE FUNCTION public.endings_of_2(batch json)
 RETURNS TABLE(id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean, outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json, suppress boolean, rule text, deferred_by json)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select * from json_to_recordset(batch) as a (
    id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
    outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
    suppress boolean, rule text, deferred_by json)
$function$;
CREATE OR REPLACE FUNCTION public.ensure_partitions(since timestamp with time zone, til timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
AS $function$
  select ensure_partitions(since, til, 2147483647)
$function$;
CREATE OR REPLACE FUNCTION public.ensure_partitions(since timestamp with time zone, til timestamp with time zone, most integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  lacking record;
  made integer := 0;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn partitions'));
  for lacking in
    with wide as materialized (select p.parent, p.days * 86400 seconds from partition_days() p),
    covered as materialized (
      select d.parent, range_agg(tstzrange(instant_of(d.low), d.ends)) of from dated_partitions() d group by 1),
    period as (
      select w.parent, tstzmultirange(tstzrange(to_timestamp(n * w.seconds), to_timestamp((n + 1) * w.seconds))) of
        from wide w cross join lateral generate_series(floor(extract(epoch from since) / w.seconds)::bigint, floor(extract(epoch from til) / w.seconds)::bigint) n)
    select p.parent, lower(gap) low, upper(gap) high
      from period p left join covered c on c.parent = p.parent
           cross join lateral unnest(p.of - coalesce(c.of, '{}')) gap
     where upper(gap) > since and lower(gap) <= til
     order by array_position(array['messages', 'contents', 'attachments', 'blobs', 'events', 'reports', 'attempts', 'webhook_attempts', 'scans'], p.parent), low
  loop
    continue when to_regclass(format('%s_%s', lacking.parent, to_char(lacking.low at time zone 'UTC', 'YYYYMMDD'))) is not null;
    if make_partition_1(lacking.parent, lacking.low, lacking.high) then
      made := made + 1;
      if made = most then return made; end if;
    end if;
  end loop;
  return made;
end $function$;
CREATE OR REPLACE FUNCTION public.erase_contents_1(parent text, blob_column text, space uuid, most integer, blobs_most integer, from_leaf text, from_message uuid)
 RETURNS TABLE(many integer, leaf text, last uuid)
 LANGUAGE plpgsql
AS $function$
declare
  ids uuid[];
  name text;
begin
  many := 0;
  for name in select l from leaves_of_1(parent) l where from_leaf is null or l >= from_leaf loop
    begin
      execute format('with seen as materialized (
                        select ctid row, message_id, %2$I blob from %1$I where workspace_id = $1 and message_id >= $4
                         order by workspace_id, message_id limit $2 for update skip locked),
                      turns as materialized (
                        select s.*, s.blob is null or row_number() over (partition by s.blob is null order by s.message_id) <= $3 goes from seen s),
                      gone as (delete from %1$I where ctid = any (array(select t.row from turns t where t.goes)) returning 1)
                      select (select count(*)::integer from gone), array(select t.blob from turns t where t.goes and t.blob is not null),
                             (select t.message_id from turns t order by t.goes, case when not t.goes then t.message_id end, t.message_id desc limit 1)',
          name, blob_column)
        into many, ids, last
        using space, most, blobs_most, case when name = from_leaf then from_message else '00000000-0000-0000-0000-000000000000' end;
      leaf := name;
      if cardinality(ids) > 0 then
        delete from blobs b where b.id = any (ids);
      end if;
    exception when undefined_table then many := 0;
    end;
    exit when many > 0;
  end loop;
  return next;
end $function$;
CREATE OR REPLACE FUNCTION public.erase_rows_1(parent text, keys text[], space uuid, most integer, from_leaf text, from_keys text[])
 RETURNS TABLE(many integer, leaf text, last text[])
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
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
end $function$;
CREATE OR REPLACE FUNCTION public.events_before_1(workspace uuid, message uuid, before integer, most integer)
 RETURNS SETOF events
 LANGUAGE sql
 STABLE
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
  select * from events e
   where e.workspace_id = workspace and (e.message_id, e.sequence) < (message, before)
   order by e.message_id desc, e.sequence desc limit most
$function$;
CREATE OR REPLACE FUNCTION public.events_behind_1(workspace uuid, message uuid, after integer, until uuid, most integer)
 RETURNS SETOF events
 LANGUAGE sql
 STABLE
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
  select * from events e
   where e.workspace_id = workspace and (e.message_id, e.sequence) > (message, after) and e.message_id < until
   order by e.message_id, e.sequence limit most
$function$;
CREATE OR REPLACE FUNCTION public.finish_1(batch json, ids uuid[])
 RETURNS TABLE(id uuid, epoch integer)
 LANGUAGE sql
AS $function$
  select f.id, f.epoch from finish_2(batch, ids) f
$function$;
CREATE OR REPLACE FUNCTION public.finish_2(batch json, ids uuid[])
 RETURNS TABLE(id uuid, epoch integer, handed_back boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  done integer;
  failures text[] := '{}';
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  -- Whoever lifts a stop has chosen behind these locks, or before them.
  if exists (select from delivery_stops where kind in ('fence', 'pause')) then
    failures := array(select e.id::text || ' ' || e.epoch from endings_of_2(batch) e where e.status = 'failed');
    batch := handed_back_1(batch);
  end if;

  return query
  with asked as materialized (
    select e.*, o.row from endings_of_2(batch) e cross join lateral (
      select x.ctid row from outbound x where x.message_id = e.id and x.workspace_id = e.w and x.epoch = e.epoch and x.token = e.token
         and x.status = 'sending' limit 1) o
  ),
  ended as (
    delete from outbound o using asked a
     where o.ctid = a.row and o.epoch = a.epoch and o.token = a.token and o.status = 'sending'
       and a.status in ('sent', 'failed', 'delivery_unknown')
       and (a.status <> 'failed' or o.armed_epoch is null or a.evidence = 'not_written' or proves_reply(a.status, a.evidence, a.facts))
    returning a.*, o.armed_epoch
  ),
  again as (
    update outbound o
       set status = 'retrying', due_at = now_at + a.delay_ms * interval '1 millisecond', lease_until = null, lease_owner = null,
           armed_epoch = null, evidence = a.evidence, attempts = o.attempts - case when a.uses_try then 0 else 1 end
      from asked a
     where o.ctid = a.row and o.epoch = a.epoch and o.token = a.token and o.status = 'sending' and a.status = 'retrying'
    returning a.*, null::integer armed_epoch
  ),
  told as materialized (
    select v.*, m.delivery_rank was, case when v.report is null then 0 else 1 end + coalesce(json_array_length(v.deferred_by), 0) reports
      from (select * from ended union all select * from again) v
      cross join lateral (select x.delivery_rank from messages x where x.workspace_id = v.w and x.id = v.id limit 1) m
  ),
  record as (
    update messages m
       set status = t.status,
           sequence = m.sequence + 1 + t.reports,
           delivery_rank = greatest(m.delivery_rank, t.rank, case when t.deferred_by is not null then 1::smallint end),
           provider_message_id = coalesce(t.provider_id, m.provider_message_id),
           error_message = case when t.status = 'sent' then null else t.error end,
           armed_epoch = case when t.status = 'delivery_unknown' then t.armed_epoch end,
           armed_token = case when t.status = 'delivery_unknown' then t.token end,
           finished_at = case when t.status = 'retrying' then null else now_at end
      from told t where m.workspace_id = t.w and m.id = t.id
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key,
              case when m.delivery_rank > greatest(t.rank, case when t.deferred_by is not null then 1::smallint end, 0::smallint) then m.delivery_rank
                   else t.was end known
  ),
  event as (
    -- the state's event comes before the reports', and says what was known before them; the report of the host that counts is the last
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - r.reports, 'message.' || r.status, r.status, r.known, now_at, r.event
      from record r
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'message.soft_bounced', r.status, greatest(r.known, 1::smallint), now_at, d.said -> 'report'
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
    union all
    select r.w, r.id, r.sequence, r.report_event, r.status, r.delivery_rank, now_at, r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', now_at from record r where r.report is not null
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'soft_bounce', d.said ->> 'detail', d.said -> 'bounce', 'session', now_at
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
  ),
  attempt as (
    insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.w, r.id, r.epoch, now_at, r.outcome, r.facts from record r
    on conflict (workspace_id, message_id, epoch) do nothing
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (r.w, r.recipient_key) r.w, r.recipient_key, r.recipient, 'hard_bounce', r.id, r.rule, r.detail, now_at
      from record r where r.suppress order by r.w, r.recipient_key, r.id
    on conflict (workspace_id, recipient_key) do nothing
  )
  select r.id, r.epoch, r.status = 'retrying' and r.id::text || ' ' || r.epoch = any (failures) from record r;

  get diagnostics done = row_count;
  if done < cardinality(ids) then
    return query select l.id, l.epoch, false from late_proof_1(batch) l;
  end if;
end $function$;
CREATE OR REPLACE FUNCTION public.handed_back_1(batch json)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(json_agg(case when e.status = 'failed' and not proves_reply(e.status, e.evidence, e.facts) then (
           value::jsonb - array['report', 'report_type', 'report_event', 'rank', 'detail', 'bounce', 'rule', 'deferred_by'] || jsonb_build_object(
             'status', 'retrying', 'delay_ms', 0, 'uses_try', false, 'outcome', 'retry', 'suppress', false, 'error', words.said,
             'event', coalesce((value -> 'event')::jsonb, '{}') - 'bounce' || jsonb_build_object('reason', 'shutdown', 'errorMessage', words.said,
               'nextAttemptAt', to_char(app_now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
         )::json else value end order by n), '[]')
    from json_array_elements(batch) with ordinality told(value, n)
         cross join lateral endings_of_2(json_build_array(value)) e
         cross join (values ('Delivery was stopped, and the database may lack another try of the message: that this one failed does not count.')) words(said)
$function$;
CREATE OR REPLACE FUNCTION public.has_row_1(name text, space uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  there boolean;
begin
  execute format('select exists (select from %I where workspace_id = $1)', name) into there using space;
  return there;
exception when undefined_table then
  return false; -- its time was over meanwhile
end $function$;
CREATE OR REPLACE FUNCTION public.held_1(spaces uuid[], ids uuid[])
 RETURNS SETOF uuid
 LANGUAGE plpgsql
AS $function$
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
end $function$;
CREATE OR REPLACE FUNCTION public.hour_count(minutes integer[], minute bigint, at bigint)
 RETURNS integer
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  one integer;
  sum integer := 0;
begin
  if at - minute >= 60 then return 0; end if;
  if at = minute then
    foreach one in array minutes loop sum := sum + one; end loop;
    return sum;
  end if;
  return (select sum(charged)::integer from trailing_hour(minutes, minute, at));
end $function$;
CREATE OR REPLACE FUNCTION public.in_time_1(patience_ms double precision)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if extract(epoch from clock_timestamp() - now()) * 1000 > patience_ms then
    raise exception 'the caller does not wait any longer' using errcode = 'PH002';
  end if;
  return true;
end $function$;
CREATE OR REPLACE FUNCTION public.instant_of(id uuid)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$function$;
CREATE OR REPLACE FUNCTION public.is_awaited_1(counter bigint, confirmed_at timestamp with time zone, forgotten_ms double precision)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select confirmed_at > app_now() - case when counter > 0 then forgotten_ms else least(forgotten_ms, 3600000) end * interval '1 millisecond'
$function$;
CREATE OR REPLACE FUNCTION public.is_unknown_server_1()
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select exists (select from delivery_server() here join installation i on i.name = 'system_identifier' and i.value <> here.system_identifier
                                                                         or i.name = 'timeline' and i.value <> here.timeline)
$function$;
CREATE OR REPLACE FUNCTION public.judged_replies_1(batch json)
 RETURNS TABLE(ending json, id uuid, w uuid, epoch integer, token bigint, orphan boolean, known boolean)
 LANGUAGE sql
 STABLE
AS $function$
  select value, e.id, e.w, e.epoch, e.token,
         o.message_id is not null and (e.status = 'sent' or o.epoch < e.epoch)
           and not (o.status = 'sending' and o.epoch = e.epoch and o.token = e.token and o.armed_epoch is not distinct from e.epoch),
         exists (select from messages m where m.workspace_id = e.w and m.id = e.id)
    from json_array_elements(batch) cross join lateral endings_of(json_build_array(value)) e
    left join lateral (select x.* from outbound x where x.message_id = e.id and x.workspace_id = e.w limit 1) o on true
$function$;
CREATE OR REPLACE FUNCTION public.late_proof_1(batch json)
 RETURNS TABLE(id uuid, epoch integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  mine record;
begin
  for mine in select a.w, a.id from endings_of_2(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id and m.status = 'delivery_unknown' for update;
  end loop;

  return query with told as materialized (
    select a.id, a.w, a.epoch, a.token, a.error, a.provider_id, a.facts, a.report_type, a.report_event, a.detail, a.suppress, a.rule, a.deferred_by,
           case when a.report is null then 0 else 1 end + coalesce(json_array_length(a.deferred_by), 0) reports,
           case when late_4yz then 'failed' else a.status end becomes, case when late_4yz then 'failed' else a.outcome end outcome,
           case when a.report is null then 0::smallint when late_4yz then 3::smallint else a.rank end rank,
           case when late_4yz then (a.event::jsonb - 'nextAttemptAt' || '{"reason": "eod_4xx_late"}')::json else a.event end event,
           case when late_4yz then jsonb_set(a.report::jsonb, '{bounce,final}', 'true', false)::json else a.report end report,
           case when late_4yz then jsonb_set(a.bounce::jsonb, '{final}', 'true', false)::json else a.bounce end bounce,
           m.delivery_rank was
      from (select *, status = 'retrying' late_4yz from endings_of_2(batch)) a join messages m on m.workspace_id = a.w and m.id = a.id
     where m.status = 'delivery_unknown' and m.armed_epoch = a.epoch and m.armed_token = a.token
       and proves_reply(a.status, a.evidence, a.facts)
     order by a.id
  ),
  record as (
    update messages m
       set status = t.becomes, sequence = m.sequence + 1 + t.reports,
           delivery_rank = greatest(m.delivery_rank, t.rank, case when t.deferred_by is not null then 1::smallint end),
           provider_message_id = coalesce(t.provider_id, m.provider_message_id),
           error_message = case when t.becomes = 'sent' then null else t.error end,
           armed_epoch = null, armed_token = null, finished_at = app_now()
      from told t
     where m.workspace_id = t.w and m.id = t.id
       and m.status = 'delivery_unknown' and m.armed_epoch = t.epoch and m.armed_token = t.token
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - r.reports, 'message.' || r.becomes, r.becomes, r.was, app_now(), r.event
      from record r
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'message.soft_bounced', r.becomes, greatest(r.was, 1::smallint), app_now(), d.said -> 'report'
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
    union all
    select r.w, r.id, r.sequence, r.report_event, r.becomes, r.delivery_rank, app_now(), r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', app_now() from record r where r.report is not null
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'soft_bounce', d.said ->> 'detail', d.said -> 'bounce', 'session', app_now()
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
  ),
  attempt as (
    insert into attempts as known (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.w, r.id, r.epoch, app_now(), r.outcome, r.facts from record r
    on conflict (workspace_id, message_id, epoch) do update set outcome = excluded.outcome, facts = excluded.facts
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (r.w, r.recipient_key) r.w, r.recipient_key, r.recipient, 'hard_bounce', r.id, r.rule, r.detail, app_now()
      from record r where r.suppress order by r.w, r.recipient_key, r.id
    on conflict (workspace_id, recipient_key) do nothing
  )
  select r.id, r.epoch from record r;
end $function$;
CREATE OR REPLACE FUNCTION public.leaves_of_1(parent text)
 RETURNS SETOF text
 LANGUAGE sql
 STABLE
AS $function$
  select c.relname::text from pg_class c
   where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind = 'r'
     and (c.relname = parent or c.relname like 'expired\_' || replace(parent, '_', '\_') || '\_20%'
          or c.oid in (select t.relid from pg_partition_tree(parent::regclass) t where t.isleaf))
   order by 1
$function$;
CREATE OR REPLACE FUNCTION public.lift_fence_1()
 RETURNS TABLE(settled integer)
 LANGUAGE plpgsql
AS $function$
declare
  here record;
  written integer;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  perform 1 from outbound o where o.message_id = any (array(select r.message_id from orphaned_replies r)) order by o.message_id for update;
  with waiting as materialized (
    select distinct on (r.message_id) r.workspace_id w, r.message_id id, r.epoch, r.token, o.attempts
      from orphaned_replies r join outbound o on o.message_id = r.message_id and o.workspace_id = r.workspace_id
     order by r.message_id, (r.ending ->> 'status' = 'sent') desc, r.epoch desc
  ),
  gone as (delete from outbound o using waiting c where o.message_id = c.id),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = app_now(),
           error_message = 'The database was restored. A node that had sent the message still holds the reply.',
           armed_epoch = c.epoch, armed_token = c.token
      from waiting c where m.workspace_id = c.w and m.id = c.id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  )
  insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
  select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, app_now(),
         json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
    from record r;
  -- What `assume_sent_1` moved already names no claim: the reply names it now.
  update messages m set armed_epoch = r.epoch, armed_token = r.token
    from decisive_replies_1((select coalesce(json_agg(o.ending), '[]') from orphaned_replies o)) r
   where m.workspace_id = r.w and m.id = r.id and m.status = 'delivery_unknown' and m.armed_epoch is null;
  select count(*)::integer into written from late_proof_1((select coalesce(json_agg(r.ending), '[]') from orphaned_replies r));
  delete from orphaned_replies;
  select * into here from delivery_server();
  perform remember_installation('system_identifier', here.system_identifier);
  perform remember_installation('timeline', here.timeline);
  -- Whoever delivers from now on says in which era.
  update delivering_nodes n set era = coalesce((select i.value::bigint from installation i where i.name = 'era'), 0) where n.era is null;
  -- Later than every era before, also than those that a restore has forgotten.
  perform remember_installation('era', greatest((extract(epoch from clock_timestamp()) * 1000)::bigint,
    (select max(i.value::bigint) + 1 from installation i where i.name in ('era', 'era_seen')))::text);
  delete from delivery_stops where kind in ('fence', 'pause');
  return query select written;
end $function$;
CREATE OR REPLACE FUNCTION public.lock_due_2(space uuid, since timestamp with time zone, most integer, past_held boolean)
 RETURNS TABLE(message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamp with time zone, due_at timestamp with time zone, epoch integer, attempts integer, "row" tid)
 LANGUAGE plpgsql
 ROWS 10
AS $function$
#variable_conflict use_column
declare
  mine record;
  many integer := 0;
begin
  if not past_held then
    return query
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0 and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most for update skip locked;
    return;
  end if;
  for mine in
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0 and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most + 1000 for update skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found;
    return query select mine.message_id, mine.workspace_id, mine.destination, mine.mailbox_id, mine.expires_at, mine.due_at, mine.epoch, mine.attempts, mine.ctid;
    many := many + 1;
    exit when many >= most;
  end loop;
end $function$;
CREATE OR REPLACE FUNCTION public.lock_due_lane_2(space uuid, lane text, since timestamp with time zone, most integer, past_held boolean)
 RETURNS TABLE(message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamp with time zone, due_at timestamp with time zone, epoch integer, attempts integer, "row" tid)
 LANGUAGE plpgsql
 ROWS 10
AS $function$
#variable_conflict use_column
declare
  mine record;
  many integer := 0;
begin
  if not past_held then
    return query
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.destination = lane and o.lease_until is null and o.destination <> '' and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most for update skip locked;
    return;
  end if;
  for mine in
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.destination = lane and o.lease_until is null and o.destination <> '' and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most + 1000 for update skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found;
    return query select mine.message_id, mine.workspace_id, mine.destination, mine.mailbox_id, mine.expires_at, mine.due_at, mine.epoch, mine.attempts, mine.ctid;
    many := many + 1;
    exit when many >= most;
  end loop;
end $function$;
CREATE OR REPLACE FUNCTION public.lock_due_webhooks_2(space uuid, since timestamp with time zone, most integer, thorough boolean)
 RETURNS TABLE(workspace_id uuid, message_id uuid, sequence integer, due_at timestamp with time zone, round integer, attempts integer, "row" tid)
 LANGUAGE plpgsql
 ROWS 10
AS $function$
#variable_conflict use_column
declare
  firsts tid[];
  earlier tid[];
begin
  if not thorough then
    return query
    select q.workspace_id, q.message_id, q.sequence, q.due_at, q.round, q.attempts, q.ctid from webhook_queue q
     where q.workspace_id = space and q.lease_until is null and q.due_at >= since and q.due_at <= app_now()
     order by q.due_at, q.message_id, q.sequence limit most for update skip locked;
    return;
  end if;
  firsts := array(
    select q.ctid from webhook_queue q
     where q.workspace_id = space and q.lease_until is null and q.due_at >= since and q.due_at <= app_now()
     order by q.due_at, q.message_id, q.sequence limit most for update skip locked);
  earlier := array(
    select x.row
      from (select q.message_id, max(q.sequence) last from webhook_queue q where q.ctid = any (firsts) group by q.message_id) m
      cross join lateral (
        select q.ctid row from webhook_queue q
         where q.workspace_id = space and q.message_id = m.message_id and q.sequence < m.last
           and q.lease_until is null and q.attempts = 0 and q.due_at <= app_now()
         order by q.sequence for update skip locked) x);
  return query
  select q.workspace_id, q.message_id, q.sequence, q.due_at, q.round, q.attempts, q.ctid from webhook_queue q where q.ctid = any (firsts || earlier);
end $function$;
CREATE OR REPLACE FUNCTION public.made_by_key_1(space uuid, key uuid)
 RETURNS TABLE(kind text, id uuid)
 LANGUAGE sql
 STABLE
 SET enable_hashjoin TO 'on'
 SET enable_nestloop TO 'off'
AS $function$
  with recursive
   told as materialized (
     select a.id, a.actor, a.action, a.target, a.facts ->> 'url' url from audit_log a
      where a.workspace_id = space and a.id >= (select uuid_floor(k.created_at - interval '10 minutes') from api_keys k where k.workspace_id = space and k.id = key)
        and a.action in (
          'key.created', 'smtp_credential.created', 'invitation.sent', 'invitation.accepted', 'webhook.created', 'webhook.changed', 'webhook.secret_prepared')),
   invited as (
     select t.action, t.actor, max((case when t.action = 'invitation.sent' then t.id::text || t.actor end) collate "C") over (partition by t.target order by t.id) sent
       from told t where t.action in ('invitation.sent', 'invitation.accepted')),
   made (maker, made) as materialized (
     select t.actor, 'key:' || t.target from told t where t.action = 'key.created'
     union all
     select substr(i.sent, 37), i.actor from invited i where i.action = 'invitation.accepted' and i.sent is not null),
   makers (maker) as (select 'key:' || key union select m.made from makers r join made m on m.maker = r.maker),
   endpoint (maker) as (
     (select t.actor from told t where t.action = 'webhook.created' or t.action = 'webhook.changed' and t.url = 'changed' order by t.id desc limit 1)
     union all
     (select t.actor from told t where t.action in ('webhook.created', 'webhook.secret_prepared') order by t.id desc limit 1))
  select case t.action when 'key.created' then 'key' else 'smtp_credential' end, t.target::uuid
    from told t join makers m on m.maker = t.actor where t.action in ('key.created', 'smtp_credential.created')
  union all
  select 'member', substr(m.maker, 6)::uuid from makers m where starts_with(m.maker, 'user:')
  union all
  select 'webhook', space where exists (select from endpoint x join makers m on m.maker = x.maker)
$function$;
CREATE OR REPLACE FUNCTION public.make_partition_1(parent text, low timestamp with time zone, high timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  name text := format('%s_%s', parent, to_char(low at time zone 'UTC', 'YYYYMMDD'));
  astray text := parent || '_default';
  key text := case when parent in ('messages', 'blobs') then 'id' else 'message_id' end;
  waits boolean;
begin
  execute format('select exists (select from %I where %I >= %L and %2$I < %4$L)', astray, key, uuid_floor(low), uuid_floor(high)) into waits;
  if waits then
    if pg_total_relation_size(astray::regclass) > 256 * 1024 * 1024 then return false; end if;
    execute format('create table %I (like %I including all)', name, parent);
    execute format('lock table %I in access exclusive mode', astray);
    execute format('with moved as (delete from %I where %I >= %L and %2$I < %4$L returning *) insert into %I select * from moved',
      astray, key, uuid_floor(low), uuid_floor(high), name);
    execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, name, uuid_floor(low), uuid_floor(high));
  else
    execute format('create table %I partition of %I for values from (%L) to (%L)', name, parent, uuid_floor(low), uuid_floor(high));
  end if;
  if parent = 'messages' then
    execute format('alter table %I set (fillfactor = 50)', name);
  end if;
  return true;
end $function$;
CREATE OR REPLACE FUNCTION public.minute_of(instant timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select floor(extract(epoch from instant) / 60)::bigint
$function$;
CREATE OR REPLACE FUNCTION public.oldest_untold_1()
 RETURNS uuid
 LANGUAGE sql
 STABLE
AS $function$
  select q.message_id from webhook_endpoints e
    cross join lateral (select x.message_id from webhook_queue x where x.workspace_id = e.workspace_id order by x.message_id limit 1) q
   where e.state = 'active' order by q.message_id limit 1
$function$;
CREATE OR REPLACE FUNCTION public.partition_days()
 RETURNS TABLE(parent text, days integer)
 LANGUAGE sql
 STABLE
AS $function$
  select p.parent, p.days * (2 ^ greatest(0, ceil(log(2, kept.days / (64.0 * p.days)))))::integer
    from (values ('messages', 28, 'keep_records_days', 90), ('contents', 2, 'keep_content_days', 7), ('attachments', 2, 'keep_content_days', 7),
                 ('blobs', 2, 'keep_content_days', 7), ('events', 7, 'keep_events_days', 30), ('reports', 28, 'keep_records_days', 90),
                 ('attempts', 28, 'keep_records_days', 90), ('webhook_attempts', 7, 'keep_events_days', 30), ('scans', 28, 'keep_records_days', 90)) p (parent, days, kept, usual)
    cross join lateral (select greatest(1, coalesce((select i.value::integer from installation i where i.name = p.kept), p.usual)) days) kept
$function$;
CREATE OR REPLACE FUNCTION public.partitions_ahead_1()
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
begin
  set local lock_timeout = '100ms';
  return ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days');
exception when lock_not_available or deadlock_detected or check_violation then
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.partitions_ahead_2()
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
begin
  set local lock_timeout = '100ms';
  return ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days', 1);
exception when lock_not_available or deadlock_detected or check_violation then
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.proves_reply(status text, evidence text, facts json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(facts ->> 'phase' = 'eod' and facts ->> 'trouble' is null and case
    when evidence is null then facts #>> '{smtp,code}' ~ case status when 'sent' then '^2[0-9]{2}$' when 'failed' then '^5[0-9]{2}$' end
    when evidence = 'eod_4xx' then facts #>> '{smtp,code}' ~ '^4[0-9]{2}$' and status in ('retrying', 'failed')
  end, false)
$function$;
CREATE OR REPLACE FUNCTION public.queue_webhooks()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (select from webhook_endpoints where state = 'active') then
    return null;
  end if;
  insert into webhook_queue (workspace_id, message_id, sequence, due_at)
  select f.workspace_id, f.message_id, f.sequence, app_now()
    from fresh f cross join lateral (
      select from webhook_endpoints e
       where e.workspace_id = f.workspace_id and e.state = 'active' and (e.types is null or f.type = any (e.types)) limit 1) wanted
   where f.type <> 'webhook.test';
  if found then
    perform tell_1('posthorn_webhooks');
  end if;
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.reap_3(tries_max integer, most integer, armed_too boolean)
 RETURNS TABLE(id uuid, becomes text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  mine record;
  ids uuid[] := '{}';
begin
  for mine in
    select o.message_id, o.workspace_id from outbound o
     where o.status = 'sending' and o.lease_until < now_at and (armed_too or o.armed_epoch is null)
     order by o.lease_until for update skip locked loop
    -- A record that is not there holds up nothing.
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found and exists (select from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id);
    ids := ids || mine.message_id;
    exit when cardinality(ids) >= most;
  end loop;
  if cardinality(ids) = 0 then return; end if;

  return query
  with out_of_time as materialized (select o.* from outbound o where o.message_id = any (ids)),
  judged as materialized (
    select o.*, case when o.armed_epoch is not null then 'delivery_unknown'
                     when o.attempts >= tries_max or o.expires_at <= now_at then 'failed' else 'retrying' end becomes
      from out_of_time o order by o.message_id
  ),
  ended as (
    delete from outbound o using judged j where o.message_id = j.message_id and j.becomes <> 'retrying'
  ),
  again as (
    update outbound o set status = 'retrying', due_at = now_at, lease_until = null, lease_owner = null
      from judged j where o.message_id = j.message_id and j.becomes = 'retrying' and o.armed_epoch is null
  ),
  record as (
    update messages m
       set status = j.becomes, sequence = m.sequence + 1,
           error_message = case j.becomes
             when 'delivery_unknown' then 'The worker was lost after the final dot may have been sent: remote acceptance cannot be proven.'
             when 'failed' then case when j.attempts >= tries_max then 'No try is left: the last worker was lost before the final dot.'
                                     else 'The message expired: the last worker was lost before the final dot.' end
             else 'The worker was lost before the final dot.' end,
           armed_epoch = j.armed_epoch, armed_token = case when j.armed_epoch is not null then j.token end,
           finished_at = case when j.becomes = 'retrying' then null else now_at end
      from judged j where m.workspace_id = j.workspace_id and m.id = j.message_id
    returning m.workspace_id, m.id, m.sequence, m.status, m.delivery_rank, j.attempts, j.epoch,
              case when j.becomes = 'failed' then case when j.attempts >= tries_max then 'tries_used_up' else 'expired' end
                   else 'worker_lost' end reason, m.error_message
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.' || r.status, r.status, r.delivery_rank, now_at,
           json_strip_nulls(json_build_object('attempt', r.attempts, 'reason', r.reason, 'errorMessage', r.error_message,
             'nextAttemptAt', case when r.status = 'retrying' then to_char(now_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') end))
      from record r
  ),
  attempt as (
    insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.workspace_id, r.id, r.epoch, now_at, r.status, json_build_object('attempt', r.attempts, 'reason', r.reason) from record r
    on conflict (workspace_id, message_id, epoch) do nothing
  )
  select r.id, r.status from record r;
end $function$;
CREATE OR REPLACE FUNCTION public.record_report_2(batch json, events_max integer)
 RETURNS TABLE(n integer, answer text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  mine record;
  held uuid[] := '{}';
begin
  for mine in select distinct a.w, a.id from reports_of(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id for update skip locked;
    if not found and exists (select from messages m where m.workspace_id = mine.w and m.id = mine.id) then
      held := held || mine.id;
    end if;
  end loop;

  return query
  with asked as materialized (select a.* from reports_of(batch) a where a.id <> all (held)),
  known as materialized (
    select a.*, m.status, m.sequence was_sequence, m.delivery_rank was_rank, m.recipient, m.recipient_key,
           a.rank = 1 and m.status = 'failed' ends, m.sequence >= events_max full_up
      from asked a
      cross join lateral (select x.* from messages x where x.workspace_id = a.w and x.id = a.id limit 1) m
     where m.status in ('sent', 'delivery_unknown')
        or exists (select from outbound o where o.message_id = a.id and o.workspace_id = a.w and o.armed_epoch is not null)
        or exists (select from attempts t where t.workspace_id = a.w and t.message_id = a.id and t.facts ->> 'phase' = 'eod')
  ),
  fresh as materialized (
    insert into report_fingerprints (workspace_id, message_id, fingerprint, seen_at)
    select k.w, k.id, decode(k.fingerprint, 'hex'), now_at from known k
     where not k.full_up order by k.id, k.fingerprint
    on conflict do nothing
    returning message_id, fingerprint
  ),
  first as (
    select distinct on (k.id, k.fingerprint) k.*, case when k.ends then 3::smallint else k.rank end final_rank
      from known k where (k.id, decode(k.fingerprint, 'hex')) in (select f.message_id, f.fingerprint from fresh f)
     order by k.id, k.fingerprint, k.n
  ),
  told as materialized (
    select f.*, (row_number() over turns)::integer turn, greatest(f.was_rank, max(f.final_rank) over turns) shown_rank
      from first f window turns as (partition by f.id order by f.n)
  ),
  record as (
    update messages m set sequence = m.sequence + c.many, delivery_rank = greatest(m.delivery_rank, c.rank)
      from (select t.w, t.id, count(*)::integer many, max(t.final_rank) rank from told t group by t.w, t.id) c
     where m.workspace_id = c.w and m.id = c.id
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select t.w, t.id, t.was_sequence + t.turn, t.event, t.status, t.shown_rank, now_at,
           case when t.ends then jsonb_set(t.facts::jsonb, '{bounce,final}', 'true', false)::json else t.facts end
      from told t order by t.id, t.turn
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select t.w, t.id, t.was_sequence + t.turn, t.type, t.detail,
           case when t.ends then jsonb_set(t.bounce::jsonb, '{final}', 'true', false)::json else t.bounce end, t.source, now_at
      from told t order by t.id, t.turn
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (t.w, t.recipient_key) t.w, t.recipient_key, t.recipient, t.reason, t.id, t.rule, t.detail, now_at
      from told t where t.reason is not null order by t.w, t.recipient_key, t.id, t.turn
    on conflict (workspace_id, recipient_key) do nothing
  )
  select a.n, case when k.n is null then 'not_armed' when t.n is not null then 'recorded' when k.full_up then 'too_many' else 'repeated' end
    from asked a left join known k on k.n = a.n left join told t on t.n = a.n
  union all
  select a.n, 'held' from reports_of(batch) a where a.id = any (held);
end $function$;
CREATE OR REPLACE FUNCTION public.refuse_unproven_retry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'message % is armed: without proof that it was not accepted it may not be tried again', old.message_id
    using errcode = 'check_violation';
end $function$;
CREATE OR REPLACE FUNCTION public.refuse_wrong_move()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not (case old.status
    when 'queued' then new.status in ('sending', 'failed', 'delivery_unknown')
    when 'retrying' then new.status in ('sending', 'failed', 'delivery_unknown')
    when 'sending' then new.status in ('sent', 'retrying', 'failed', 'delivery_unknown')
    when 'delivery_unknown' then new.status in ('sent', 'failed')
    else false end) then
    raise exception 'message % may not become % from %', old.id, new.status, old.status using errcode = 'check_violation';
  end if;
  return new;
end $function$;
CREATE OR REPLACE FUNCTION public.remember_installation(known_as text, known text)
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into installation (name, value) select known_as, known where known is not null
  on conflict (name) do update set value = excluded.value where installation.value <> excluded.value
$function$;
CREATE OR REPLACE FUNCTION public.replay_3(batch json)
 RETURNS TABLE(id uuid, epoch integer, answer text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  patience text := current_setting('lock_timeout');
  seen json;
  explained json;
  held uuid[];
  mine record;
begin
  if exists (select from judged_replies_1(batch) j where j.orphan) then
    perform pg_advisory_xact_lock_shared(hashtext('posthorn check-in'));
  end if;
  held := array(select held_1(array_agg(e.w), array_agg(e.id)) from endings_of(batch) e);
  with told as materialized (select j.* from judged_replies_1(batch) j),
  kept as (
    insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
    select t.w, t.id, t.epoch, t.token, t.ending from told t where t.orphan on conflict do nothing
  ),
  stopped as materialized (
    select stop_delivery_1('fence', 'orphaned_reply', json_build_object('messageId', min(t.id::text))) from told t where t.orphan having count(*) > 0
  )
  select json_agg(json_build_object('id', t.id, 'epoch', t.epoch, 'orphan', t.orphan, 'known', t.known)) into seen from told t left join stopped on true;
  explained := (select coalesce(json_agg(value), '[]') from json_array_elements(batch)
    where (value ->> 'id')::uuid <> all (held)
      and not exists (select from orphaned_replies r where r.message_id = (value ->> 'id')::uuid and r.epoch = (value ->> 'epoch')::integer
                        and r.token = (value ->> 'token')::bigint));
  perform set_config('lock_timeout', '500', true);
  if not write_replies_1(explained) then
    -- They may be many, and all are to be told within one statement's time.
    perform set_config('lock_timeout', '5', true);
    for mine in select (value ->> 'id')::uuid id, json_agg(value) replies from json_array_elements(explained) group by 1 order by 1 loop
      if not write_replies_1(mine.replies) then
        held := held || mine.id;
      end if;
    end loop;
  end if;
  perform set_config('lock_timeout', patience, true);
  return query
  select t.id, t.epoch, case when t.orphan then 'orphan' when t.id = any (held) then 'held' when t.known then 'known' else 'gone' end
    from json_to_recordset(seen) as t (id uuid, epoch integer, orphan boolean, known boolean);
end $function$;
CREATE OR REPLACE FUNCTION public.reports_of(batch json)
 RETURNS TABLE(n integer, id uuid, w uuid, fingerprint text, type text, event text, rank smallint, detail text, bounce json, facts json, source text, reason text, rule text)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select * from json_to_recordset(batch) as a (
    n integer, id uuid, w uuid, fingerprint text, type text, event text, rank smallint, detail text, bounce json, facts json, source text,
    reason text, rule text)
$function$;
CREATE OR REPLACE FUNCTION public.stop_delivery_1(kind text, reason text, facts json)
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into delivery_stops (kind, reason, facts, since) values (kind, reason, facts, stopped_at_1()) on conflict do nothing
$function$;
CREATE OR REPLACE FUNCTION public.stopped_at_1()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
  -- in whole milliseconds, which is what comes back from those who read it
  select case when newest.at > app_now() then date_trunc('milliseconds', newest.at + interval '999 microseconds') else app_now() end
    from (select max(m.created_at) at from (select x.workspace_id, x.message_id from outbound x order by x.message_id desc limit 1000) o
            cross join lateral (select x.created_at from messages x where x.workspace_id = o.workspace_id and x.id = o.message_id limit 1) m) newest
$function$;
CREATE OR REPLACE FUNCTION public.tell_1(channel text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if current_setting('posthorn.nudged', true) is distinct from 'on' then
    perform pg_notify(channel, '');
  end if;
end $function$;
CREATE OR REPLACE FUNCTION public.tell_access_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('posthorn_access', '');
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.tell_delivery_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('posthorn_delivery', '');
  return null;
end $function$;
CREATE OR REPLACE FUNCTION public.trailing_hour(minutes integer[], minute bigint, at bigint)
 RETURNS TABLE(age integer, charged integer)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select age::integer, case when at - age <= minute and at - age > minute - 60 then minutes[(at - age) % 60 + 1] else 0 end
    from generate_series(59, 0, -1) age
$function$;
CREATE OR REPLACE FUNCTION public.uuid_floor(instant timestamp with time zone)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select (lpad(to_hex((extract(epoch from instant) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$function$;
CREATE OR REPLACE FUNCTION public.webhook_results_of_2(batch json)
 RETURNS TABLE(w uuid, m uuid, s integer, round integer, attempt integer, claim uuid, asked boolean, delivered boolean, trouble text, status smallint, ms integer, excerpt text, delay_ms bigint, v integer)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select * from json_to_recordset(batch) as r (
    w uuid, m uuid, s integer, round integer, attempt integer, claim uuid, asked boolean, delivered boolean, trouble text, status smallint,
    ms integer, excerpt text, delay_ms bigint, v integer)
$function$;
CREATE OR REPLACE FUNCTION public.write_replies_1(replies json)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  -- What `assume_sent_1` moved before this journal was told names no claim: the reply names it now, as in `lift_fence_1`.
  update messages m set armed_epoch = e.epoch, armed_token = e.token from decisive_replies_1(replies) e
   where m.workspace_id = e.w and m.id = e.id and m.status = 'delivery_unknown' and m.armed_epoch is null and m.armed_token is null;
  perform 1 from finish_1(replies, array(select (value ->> 'id')::uuid from json_array_elements(replies)));
  return true;
exception when lock_not_available then
  return false;
end $function$;
