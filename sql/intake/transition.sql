-- Moves instances from outside, one after the other in id order; _gd_move (schema/013_transitions.up.sql) says how. Waits for
-- nobody.
-- $1 bigint[] target id, each once, $2 text[] to step, $3 text[] from step, or null, $4 bigint[] seq, or null, $5 text[]
-- state (JSON), or null, $6 text[] metadata (JSON), or null, $7 text[] reason, or null, $8 text[] by, or null. Those from $3
-- on may be shorter.
-- A row for each, in the order given: answer: moved, no_such_target, conflict, unknown_step, not_allowed, taken, locked (by a
-- stranger: try again) or unsure (a stranger may be inserting its unique key: wait for it, apart from others); status and seq;
-- the queue of one that is runnable, which a pick may have passed over because it was locked here; detail: why it was refused.
select m.answer, m.status, m.seq, m.queue, m.detail
from (
  select *
  from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[])
    with ordinality as e (target, to_step, from_step, from_seq, state, metadata, reason, by, n)
  order by e.target
) e
cross join lateral :"schema"._gd_move(e.target, e.to_step, e.from_step, e.from_seq, e.state::jsonb, e.metadata::jsonb, e.reason,
  e.by, false) m
order by e.n
