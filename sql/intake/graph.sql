-- A machine, with the transitions that its steps declare and what of them concerns those outside (open), as JSON; null:
-- nobody has told.
-- $1 text fsm, $2 int version; 0: the one that an insert means which names none, also if all are retired
-- No row: nobody knows it.
select m.fsm, m.version, left(m.initial_step, 1025) as initial_step, m.steps, m.transitions::text as transitions,
  m.outside::text as open
from :"schema".gen_durable_machines m
where m.fsm = $1::text and ($2::int = 0 or m.version = $2::int)
order by m.retired, m.pinned desc, m.served desc, case when not m.served then m.last_served end desc nulls last,
  m.version desc
limit 1
