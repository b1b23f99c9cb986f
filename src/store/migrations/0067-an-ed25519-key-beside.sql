-- A domain may have an Ed25519 DKIM key beside its RSA keys (decision 0079). A release before knows no algorithm in a row: it would sign with the newest key alone,
-- and break a domain by a record that it takes for wrong. So the table has a new name, and under the old one that release sees RSA keys and nothing else; the view goes one
-- release after this one. Where it removes a domain, what it does not see goes with the row.
alter table dkim_keys rename to dkim_key_pairs;
alter table dkim_key_pairs
  drop constraint dkim_keys_workspace_id_domain_id_fkey,
  add constraint dkim_keys_workspace_id_domain_id_fkey
    foreign key (workspace_id, domain_id) references domains (workspace_id, id) on delete cascade;
create view dkim_keys as select * from dkim_key_pairs where algorithm = 'rsa-sha256';
