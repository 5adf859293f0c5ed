-- Returns rows whose lease is over; what they run counts as crashed (spec section 4). As many rows as the limit: there may be more.
-- $1 int limit
with expired as materialized (
  select g.id, g.locked_by
  from :"schema".gen_durable g
  where g.status = 'executing' and g.lease_expires_at < statement_timestamp()
  order by g.lease_expires_at
  limit $1::int
  for no key update skip locked
)
update :"schema".gen_durable g
set status = 'runnable', attempt = g.attempt + 1, locked_by = null, lease_expires_at = null,
    updated_at = clock_timestamp()
where g.id = any(array(select id from expired))
returning g.id, g.queue
