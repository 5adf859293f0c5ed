-- Which machines have other steps by now, given to them by a node that has started meanwhile: their rows may stand at steps
-- that this node does not have. The order of steps does not matter.
-- $1 text[] fsm, $2 int[] version, $3 text[] steps, joined by commas. A row for each: its name, version, and steps.
select k.fsm, k.version, k.steps
from unnest($1::text[], $2::int[], $3::text[]) as m (fsm, version, steps)
cross join lateral (
  select k.* from :"schema".gen_durable_machines k where k.fsm = m.fsm and k.version = m.version offset 0) k
where not (k.steps @> string_to_array(m.steps, ',') and string_to_array(m.steps, ',') @> k.steps)
