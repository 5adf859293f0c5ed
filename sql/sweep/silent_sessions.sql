-- The sessions of nodes that have been silent for longer than their lease: a process that is stopped, or cut off, keeps its
-- locks of partition keys. For end_silent_session, one by one. A node whose row somebody holds cannot say that it lives,
-- and is left out.
-- What a role may not see of another's session (when it began, what it waits for) it cannot judge, and must not end.
-- $1 text incarnation of the node that asks
-- A row for each: incarnation, name of the node, process, when it began (text), whether this role may end it.
select n.incarnation, n.node, a.pid as process, s ->> 'began' as began,
  a.backend_start is not null
    and ((select r.rolsuper from pg_roles r where r.rolname = current_user)
         or not a.rolsuper and (pg_has_role(a.usesysid, 'usage') or pg_has_role('pg_signal_backend', 'usage'))) as may_end
from :"schema".gen_durable_nodes n
cross join lateral jsonb_path_query(n.sessions, '$[*]') s
cross join lateral (
  select a.pid, a.usesysid, a.backend_start, r.rolsuper
  from pg_stat_activity a
  join pg_roles r on r.oid = a.usesysid
  where a.datname = current_database() and a.wait_event is distinct from 'SyncRep' and
-- include parts/session_of.sql
  limit 1) a
where n.incarnation <> $1::text and
-- include parts/silent.sql
for update of n skip locked
