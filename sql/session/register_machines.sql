-- Makes a node's machines known to programs that do not have them.
-- $1 text[] fsm, $2 int[] version, $3 text[] initial step, $4 text[] queue, $5 text[] steps, joined by commas
insert into :"schema".gen_durable_machines (fsm, version, initial_step, queue, steps)
select m.fsm, m.version, m.initial_step, m.queue, string_to_array(m.steps, ',')
from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[])
  as m (fsm, version, initial_step, queue, steps)
order by m.fsm, m.version
on conflict (fsm, version) do update
  set initial_step = excluded.initial_step, queue = excluded.queue, steps = excluded.steps
  where (gen_durable_machines.initial_step, gen_durable_machines.queue, gen_durable_machines.steps)
    is distinct from (excluded.initial_step, excluded.queue, excluded.steps)
