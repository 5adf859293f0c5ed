-- The rows with a partition key of the machine m.
from :"schema".gen_durable g
where g.status = 'runnable' and g.partition_key is not null
  and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version
