-- Inserts instances that begin under a lease: what insert_new and a pick that follows would do, in one transaction. For
-- rows that are due, without keys, sent for the first time (see claim.hpp): all of them, or an error, as insert_new.
-- $1 bigint[] id, $2 text[] fsm, $3 int[] version, $4 text[] step, $5 text[] state (JSON), $6 text[] queue,
-- $7 smallint[] priority, $8 to $10 as in insert_new, $11 text[] lease token, $12 bigint lease in us, $13 bigint[] when the id was drawn, in us since
-- 1970, $14 text[] traceparent, or null. Arrays as those of insert_new.
-- A row for each: its id, and its state as a pick would return it.
with made as (
insert into :"schema".gen_durable (id, fsm, fsm_version, step, status, state, queue, priority, eligible_at, locked_by,
  lease_expires_at, inserted_at, traceparent)
overriding system value
select e.id, coalesce(e.fsm, ($2::text[])[1]), coalesce(e.version, ($3::int[])[1]), coalesce(e.step, ($4::text[])[1]),
  'executing', e.state::jsonb, coalesce(e.queue, ($6::text[])[1]), coalesce(e.priority, ($7::smallint[])[1]),
  clock_timestamp(), coalesce(e.token, ($11::text[])[1]), clock_timestamp() + $12::bigint * interval '1 microsecond',
  timestamptz 'epoch' + coalesce(e.drawn_us, ($13::bigint[])[1]) / 1000000 * interval '1 second'
    + coalesce(e.drawn_us, ($13::bigint[])[1]) % 1000000 * interval '1 microsecond', e.traceparent
from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $11::text[],
            $13::bigint[], $14::text[])
  as e (id, fsm, version, step, state, queue, priority, token, drawn_us, traceparent)
where
-- include parts/takes_inserts.sql
returning id, state::text as state, locked_by, lease_expires_at
), leased as (
  insert into :"schema".gen_durable_leases (token, expires_at, ids)
  select m.locked_by, least(min(m.lease_expires_at),
-- include parts/first_check.sql
    ), array_agg(m.id)
  from made m
  group by m.locked_by
)
select m.id, m.state from made m
