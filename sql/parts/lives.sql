-- Whether node n lives: a session holds the lock of its incarnation. On a standby, where no node has any: it has been heard of within
-- its lease.
((hashtext(n.incarnation)::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where
-- include parts/lock_of.sql
)) is true or pg_is_in_recovery() and not (
-- include parts/silent.sql
))
