-- What newer versions have taken the place of, and neither this release nor the one before it calls any more: whoever reads the schema took them for
-- rules that hold. `if exists`, because a database that goes through this twice is one of a test.
drop function if exists
  arm_1, arm_2, arm_3, arm_4, cancel_waiting_1, delete_astray_1, detach_expired_1, end_webhooks_1, lock_due_1, lock_due_lane_1, reap_1, reap_2,
  record_report_1, replay_1, replay_2;
