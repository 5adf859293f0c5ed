-- The machines that nodes have made known, of the given names.
-- $1 text[] fsm. A name without a row: nobody knows it.
select m.fsm, m.version, m.initial_step, m.queue, m.steps
from :"schema".gen_durable_machines m
where m.fsm = any($1::text[])
