-- The other nodes that live and have told where their gateway is found: who is to hear of rows that this one leaves. Those that
-- were heard of last come first. Text that is longer than any of ours is cut.
-- $1 text incarnation of who asks
-- A row for each: incarnation, host, address, and the names of its queues.
select left(n.incarnation, 2048) as incarnation, left(n.host, 1025) as host, left(n.address, 1025) as address,
  array(select left(coalesce(q ->> 'name', ''), 1025) from jsonb_path_query(n.queues, '$[*]') q) as queues
from :"schema".gen_durable_nodes n
where n.address is not null and n.incarnation <> $1::text and
-- include parts/lives.sql
order by n.seen_at desc
limit 100
