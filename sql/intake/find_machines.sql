-- The machines that nodes have made known, of the given names. Of each name first the version that an insert means which
-- names none: the pinned one, else the newest that a node serves, else the one that was served last, as _gd_choose_version
-- has it. Those that take no more inserts are the last.
-- open: what of their steps concerns those outside, and retention: how long what has ended is kept, as JSON.
-- $1 text[] fsm. A name without a row: nobody knows it.
select m.fsm, m.version, left(m.initial_step, 1025) as initial_step, left(m.queue, 1025) as queue, m.steps, m.pinned,
  m.retired, m.history, m.outside::text as open, m.retention::text as retention
from :"schema".gen_durable_machines m
where m.fsm = any($1::text[])
order by m.fsm, m.retired, m.pinned desc, m.served desc, case when not m.served then m.last_served end desc nulls last,
  m.version desc
