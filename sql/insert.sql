-- Inserts instances under ids drawn beforehand; sent again, it does nothing.
-- $1 bigint[] id, $2 text[] fsm, $3 int[] version, $4 text[] step, $5 text[] state (JSON), $6 text[] queue,
-- $7 smallint[] priority, $8 bigint[] delay in us, or null, $9 bigint[] time of eligibility in us since 1970, or null
insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at)
overriding system value
select e.id, e.fsm, e.version, e.step, e.state::jsonb, e.queue, e.priority,
  coalesce(timestamptz 'epoch' + e.at_us * interval '1 microsecond',
           clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond')
from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[], $9::bigint[])
  as e (id, fsm, version, step, state, queue, priority, delay_us, at_us)
on conflict do nothing
