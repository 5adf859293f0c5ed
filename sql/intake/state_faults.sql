-- What is wrong with states that a person has written by hand, as far as nodes have made known what their machines' look like.
-- $1 text[] fsm, $2 int[] version, or 0: the one that an insert means which names none, $3 text[] state, JSON
-- A row for each, in their order: fault, or null.
select :"schema"._gd_state_fault(x.fsm, nullif(x.version, 0), x.state::jsonb) as fault
from unnest($1::text[], $2::int[], $3::text[]) with ordinality x (fsm, version, state, n)
order by x.n
