-- The nodes that are known: those that live, and those that have gone lately without a word. Times in us since 1970. Text
-- that is longer than any of ours is cut.
-- A row for each: node, incarnation, host, process, version of its library, whether it lives, since when, when it was last
-- heard of, its slots, queues, and machines with their versions.
select left(n.node, 1025) as node, left(n.incarnation, 2048) as incarnation, left(n.host, 1025) as host, n.process,
  left(n.library, 1025) as library,
-- include parts/lives.sql
  as lives,
  :"schema"._gd_us(n.started_at) as started_at_us,
  :"schema"._gd_us(n.seen_at) as seen_at_us, n.slots,
  array(select left(coalesce(q ->> 'name', ''), 1025) from jsonb_path_query(n.queues, '$[*]') q) as queues,
  array(select left(coalesce(format('%s v%s', k ->> 'name', k ->> 'version'), ''), 1025)
        from jsonb_path_query(n.machines, '$[*]') k) as machines
from :"schema".gen_durable_nodes n
order by lives desc, n.node, n.started_at, n.incarnation
