-- The rows with a partition key of the machine m.
from :"schema".gen_durable_due g
where g.partition_key is not null and not g.executes
  and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(m.fsm, m.version))
  and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version
