-- What transition does where some instances are named by the unique key that they have now, or strangers are waited for:
-- _gd_move_named (schema/017_keys.up.sql) says how.
-- $1 to $8 as in transition, but ids may be null, $9 bytea[] unique keys, or null, $10 bool whether to wait for strangers: in
-- id order then, else in the order given.
-- Rows as those of transition; with waiting, none is unsure, and only one whose key one instance after the other has is locked.
select m.answer, m.status, m.seq, m.queue, m.detail
from (
  select *
  from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[])
    with ordinality as e (target, to_step, from_step, from_seq, state, metadata, reason, by, key, n)
  order by case when $10::bool then e.target end, e.n
) e
cross join lateral :"schema"._gd_move_named(e.target, e.key, e.to_step, e.from_step, e.from_seq, e.state::jsonb,
  e.metadata::jsonb, e.reason, e.by, $10::bool) m
order by e.n
