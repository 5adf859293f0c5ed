-- Sessions of other nodes that this role may not end, or not judge, should their node be silent: told when a node starts.
-- $1 text incarnation of the node that asks. A row for each node: its name.
select distinct n.node
from :"schema".gen_durable_nodes n
cross join lateral jsonb_path_query(n.sessions, '$[*]') s
join pg_stat_activity a on a.datname = current_database() and
-- include parts/session_of.sql
join pg_roles r on r.oid = a.usesysid
where n.incarnation <> $1::text
  and not (select m.rolsuper from pg_roles m where m.rolname = current_user)
  and (a.backend_start is null or r.rolsuper
       or not (pg_has_role(a.usesysid, 'usage') or pg_has_role('pg_signal_backend', 'usage')))
