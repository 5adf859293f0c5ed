-- Of which versions of which machines nodes that live run the steps in which queues.
select distinct q ->> 'name' as queue, k ->> 'name' as fsm, k ->> 'version' as version
from :"schema".gen_durable_nodes n
cross join lateral jsonb_path_query(n.queues, '$[*]') q
cross join lateral jsonb_path_query(n.machines, '$[*]') k
where
-- include parts/lives.sql
