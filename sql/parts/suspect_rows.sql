-- The suspects of the machine m: runnable rows whose process has ended twice or more.
from :"schema".gen_durable g
where g.status = 'runnable' and g.crashes >= 2
  and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version
