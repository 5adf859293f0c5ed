-- Rows that are to become runnable again by the engine, and whose unique key would be taken again by that: parked ones
-- whose wake-up is due, and those whose lease is over. For return_row, one by one (spec section 8).
-- Of the parked ones there are few: all are looked at, and those that have been looked at longest ago come first.
-- $1 int limit of each kind, $2 bool whether leases may be reaped
(
  select g.id
  from :"schema".gen_durable g
  where g.status = 'awaiting_signal' and g.wake_reason is not null
  order by g.updated_at
  limit $1::int
)
union all
(
  select g.id
  from :"schema".gen_durable g
  where $2::bool and g.status = 'executing' and g.lease_expires_at < statement_timestamp()
    and g.unique_key is not null and 'runnable' = any(g.unique_scope) and not 'executing' = any(g.unique_scope)
  order by g.lease_expires_at
  limit $1::int
)
