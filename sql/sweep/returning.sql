-- Rows that are to become runnable again by the engine, and whose unique key would be taken again by that: parked ones
-- whose wake-up is due, and those whose lease is over. For return_row, one by one.
-- In pages, each from where the last one ended: the same rows, whose keys strangers are inserting, do not come back before
-- the others have been tried. As many rows of a kind as the limit: there may be more.
-- $1 int limit of each kind, $2 bool whether leases may be reaped, $3 bigint the last id of the parked ones, $4 bigint the
-- end of the last of the leases, in us since 2000, and $5 bigint its id
-- A row for each: its id; of one whose lease is over, when that ended, in us since 2000.
(
  select g.id, null::timestamptz as expired_us2000
  from :"schema".gen_durable g
  where g.awaits is not null and g.wake_reason is not null and g.status = 'awaiting_signal' and g.id > $3::bigint
  order by g.id
  limit $1::int
)
union all
(
  select g.id, g.lease_expires_at
  from
-- include parts/leases_over.sql
  cross join lateral (
    select g.* from :"schema".gen_durable g where g.id = l.id and g.locked_by = l.token and g.status = 'executing' offset 0) g
  where $2::bool and g.lease_expires_at < statement_timestamp()
    and (g.lease_expires_at, g.id) > (timestamptz '2000-01-01 00:00Z' + $4::bigint / 1000000 * interval '1 second'
                                        + $4::bigint % 1000000 * interval '1 microsecond', $5::bigint)
    and
-- include parts/owed.sql
  order by g.lease_expires_at, g.id
  limit $1::int
)
