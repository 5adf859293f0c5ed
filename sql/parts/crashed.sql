-- Whether the process that has given g its lease token has crashed, and that counts: no session holds the lock of its
-- incarnation, which is the token without the number behind its last slash. Libraries from before crashes were counted
-- (version 8) do not forget them with an outcome, so nothing counts while one of them may work here.
(
-- include parts/works_from.sql
) >= 8 and (hashtext(regexp_replace(g.locked_by, '/[^/]*$', ''))::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where
-- include parts/lock_of.sql
)) is not true
