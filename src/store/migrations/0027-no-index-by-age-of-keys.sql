-- Housekeeping reads the idempotency keys by their pages now (store/housekeeping.ts): nobody reads their index by age, and every key was written into it.
drop index idempotency_keys_age;
