-- The machines that nodes have made known. Asks who lives: for people, not for inserts.
-- A row for each version: its name and version; where instances begin; its steps; by how many nodes that live it is served,
-- or when it was served last (us since 1970, or null); pinned, retired.
with serving as materialized (
  select k ->> 'name' as fsm, k ->> 'version' as version, count(distinct n.incarnation) as nodes
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.machines, '$[*]') k
  where
-- include parts/lives.sql
  group by k ->> 'name', k ->> 'version'
)
select m.fsm, m.version, left(m.initial_step, 1025) as initial_step, left(m.queue, 1025) as queue, m.steps,
  coalesce(s.nodes, 0) as nodes, (extract(epoch from m.last_served) * 1000000)::bigint as last_served_us, m.pinned,
  m.retired
from :"schema".gen_durable_machines m
left join serving s on s.fsm = m.fsm and s.version = m.version::text
order by m.fsm, m.version
