-- Wakes rows whose deadline has passed, once; the reason stays on the row. As many rows as the limit: there may be more.
-- $1 int limit
with due as materialized (
-- include parts/due_rows.sql
  for no key update skip locked
), applied as (
  update :"schema".gen_durable g
  set
-- include parts/wake.sql
    deadline = case when not (
-- include parts/owed.sql
    ) then g.deadline end,
    wake_reason = coalesce(g.wake_reason, 'timeout') -- the first reason stays
  where g.id = any(array(select id from due))
  returning
-- include parts/due_row.sql
    , g.fsm_version
),
-- include parts/listed.sql
select a.id, left(a.queue, 1025) as queue from applied a
