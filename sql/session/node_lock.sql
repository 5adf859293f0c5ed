-- Takes the lock that says that this node lives, for the session, unless it has it: whoever cannot get it knows that at
-- once, and who can knows that the node's control connection is gone. Two integers: no partition key's lock is one of these.
-- Another session of this node that has it is older: its connection is lost, and the server has not noticed. It is asked to
-- end, unless it waits for a synchronous standby (its commit would be told as done), and waited for. Waits for nobody else:
-- who does not get the lock asks again.
-- $1 text incarnation, $2 bigint how long to wait, in ms. One row: whether this session has the lock.
with older as materialized (
  select pg_terminate_backend(a.pid, $2::bigint)
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.sessions, '$[*]') s
  join pg_stat_activity a on a.wait_event is distinct from 'SyncRep' and a.backend_start is not null and
-- include parts/session_of.sql
  join pg_locks l on l.pid = a.pid
  where current_setting('gd.node_lock', true) is distinct from 'on'
    and n.incarnation = $1::text and l.objid::bigint = hashtext($1::text)::bigint & 4294967295 and
-- include parts/lock_of.sql
    and l.pid <> pg_backend_pid()
), ended as materialized (
  select count(*) as count from older
)
select case
  when current_setting('gd.node_lock', true) is not distinct from 'on' then true
  when e.count is not null and pg_try_advisory_lock(hashtext('gen_durable node'), hashtext($1::text))
  then set_config('gd.node_lock', 'on', false) = 'on'
  else false end as held
from ended e
