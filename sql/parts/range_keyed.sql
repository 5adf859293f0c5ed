-- What is runnable with a partition key in a range r of pick_ranges.
from :"schema".gen_durable_due g
where g.partition_key is not null and not g.executes and r.is_keyed
  and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = r.place
  and g.queue = r.queue and g.fsm = r.fsm and g.fsm_version = r.fsm_version and g.priority = r.priority
