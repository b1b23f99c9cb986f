-- Both functions find their hot row by an index that tells the newest version (0037). For one row the planner takes the index of the key, with a sort
-- behind it, for cheaper wherever that is a level lower (230 to 290 workspaces, say): along all versions. Only here, where every other sort has no
-- alternative, it is told not to.
alter function admit_2(json, uuid[], boolean, boolean) set enable_sort = off;
alter function arm_3(uuid[], integer[], bigint[], text[], uuid, bigint) set enable_sort = off;
