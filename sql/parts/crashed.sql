-- Whether the process that has given g its lease token has crashed: no session holds the lock of its incarnation, which is the
-- token without the number behind its last slash.
(hashtext(regexp_replace(g.locked_by, '/[^/]*$', ''))::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where
-- include parts/lock_of.sql
)) is not true
