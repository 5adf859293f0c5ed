-- Whether node n lives: a session holds the lock of its incarnation.
(hashtext(n.incarnation)::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where
-- include parts/lock_of.sql
)) is true
