-- The machines that nodes have made known, of the given names.
-- $1 text[] fsm. A name without a row: nobody knows it.
select m.fsm, m.version, left(m.initial_step, 1025) as initial_step, left(m.queue, 1025) as queue, m.steps
from :"schema".gen_durable_machines m
where m.fsm = any($1::text[])
