-- Wakes rows whose deadline has passed, once; the reason stays on the row (spec section 5). As many rows as the limit: there may be more.
-- $1 int limit
with due as materialized (
  select g.id
  from :"schema".gen_durable g
  where g.status = 'awaiting_signal' and g.deadline <= statement_timestamp()
  order by g.deadline
  limit $1::int
  for no key update skip locked
)
update :"schema".gen_durable g
set status = 'runnable', awaits = null, wake_reason = 'timeout', eligible_at = clock_timestamp(),
    updated_at = clock_timestamp()
where g.id = any(array(select id from due))
returning g.id, g.queue
