-- Wakes rows whose deadline has passed, once; the reason stays on the row (spec section 5). As many rows as the limit: there may be more.
-- One whose unique key would be taken again by that stays parked, its wake_reason set: return_row wakes it.
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
set (status, awaits, eligible_at, deadline, wake_reason) = (
      select case when w.unsure then g.status else 'runnable' end,
        case when w.unsure then g.awaits end,
        case when w.unsure then g.eligible_at else clock_timestamp() end,
        case when not w.unsure then g.deadline end,
        case when w.unsure then coalesce(g.wake_reason, 'timeout') else 'timeout' end -- the first reason stays
      from (select g.unique_key is not null and 'runnable' = any(g.unique_scope)
                   and not 'awaiting_signal' = any(g.unique_scope) as unsure) w),
    updated_at = clock_timestamp()
where g.id = any(array(select id from due))
returning g.id, g.queue
