-- Which machines have other steps by now, or declare or open other transitions, given to them by a node that has started
-- meanwhile: their rows may stand at steps that this node does not have. The order of steps does not matter, and what a
-- library does not know that has no transitions makes no difference.
-- $1 text[] fsm, $2 int[] version, $3 text[] steps, joined by commas, $4 text[] transitions, JSON, $5 text[] what
-- concerns those outside, JSON
-- A row for each: its name, version, steps, transitions, and what concerns those outside, both as JSON.
select k.fsm, k.version, k.steps, k.transitions::text as transitions, k.outside::text as open
from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[]) as m (fsm, version, steps, transitions, outside)
cross join lateral (
  select k.* from :"schema".gen_durable_machines k where k.fsm = m.fsm and k.version = m.version offset 0) k
where not (k.steps @> string_to_array(m.steps, ',') and string_to_array(m.steps, ',') @> k.steps)
  or jsonb_strip_nulls(k.transitions) <> jsonb_strip_nulls(m.transitions::jsonb) or k.outside <> m.outside::jsonb
