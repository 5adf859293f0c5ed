-- Ends the session that has the lock of node_lock, if it is another one: this node's own, whose connection is lost, and
-- which the server has not noticed. $1 text incarnation
select pg_terminate_backend(n.pid)
from (
  select distinct (s ->> 'process')::int as pid
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_array_elements(n.sessions) s
  join pg_locks l on l.pid = (s ->> 'process')::int
  where n.incarnation = $1::text and l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid::bigint = hashtext('gen_durable node')::bigint & 4294967295
    and l.objid::bigint = hashtext($1::text)::bigint & 4294967295
    and l.pid <> pg_backend_pid()) n
