-- What newer versions have taken the place of, and neither this release nor the one before it calls any more (as in 0084). `if exists`, because a database that goes through this twice is
-- one of a test.
drop function if exists assume_sent_1, end_webhooks_2, lock_due_webhooks_1, webhook_results_of;
