-- Ends one session of a node that is still silent. By itself: one that cannot be ended hinders nobody. A node that is just
-- saying that it lives holds its row, and is not judged. A session that waits for a synchronous standby is left alone: its
-- commit would be told as done. That is looked at twice: first, so that no row is locked for its sake, which would wait for the
-- same standby; and at the end. Who begins to wait in between is ended, and its client told nothing: whoever sends that
-- again is answered behind the standby (parts/replicated.sql).
-- $1 text incarnation, $2 int process, $3 text when it began. A row: it has been asked to end.
with silent as materialized (
  select n.incarnation
  from :"schema".gen_durable_nodes n
  where n.incarnation = $1::text
    and not exists (select from pg_stat_activity a where a.pid = $2::int and a.wait_event = 'SyncRep') and
-- include parts/silent.sql
  for update skip locked
)
select pg_terminate_backend(a.pid)
from silent
cross join pg_stat_activity a
where a.pid = $2::int and to_jsonb(a.backend_start) #>> '{}' = $3::text and a.wait_event is distinct from 'SyncRep'
