-- For tests: as if that much time had passed, what waits for time in the whole table is due that much earlier.
-- $1 bigint time in us
with leases as (
  update :"schema".gen_durable_leases l set expires_at = l.expires_at - $1::bigint * interval '1 microsecond'
), due as (
  update :"schema".gen_durable_due d set eligible_at = d.eligible_at - $1::bigint * interval '1 microsecond'
)
update :"schema".gen_durable g
set eligible_at = g.eligible_at - $1::bigint * interval '1 microsecond',
    deadline = g.deadline - $1::bigint * interval '1 microsecond',
    lease_expires_at = g.lease_expires_at - $1::bigint * interval '1 microsecond'
where g.status in ('runnable', 'executing', 'awaiting_signal')
