-- Says of each machine whether a node that lives serves it: what inserts without a version go by. Behind machines_lock, or a
-- node that comes just then would not count. Changes nothing where all is as it was.
-- $1 text incarnation of a node that does not count, because it is leaving; or empty
-- $2 bool whether those are marked, too, that are served no more: not after a reconnect, when others are not back yet
with served as materialized (
  select distinct k ->> 'name' as fsm, k ->> 'version' as version
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.machines, '$[*]') k
  where n.incarnation <> $1::text and
-- include parts/lives.sql
)
update :"schema".gen_durable_machines m
set served = not m.served, last_served = clock_timestamp()
where m.served <> (((m.fsm, m.version::text) in (select s.fsm, s.version from served s)) is true)
  and ($2::bool or not m.served)
