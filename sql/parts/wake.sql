-- Of those that wake parked rows g, and set the wake_reason behind this. One whose unique key another may have is owed its
-- wake-up: it stays parked, its wake_reason set, and return_row wakes it.
(status, unique_guard, awaits, awaits_also, eligible_at, updated_at) = (
  select case when w.owed then g.status else 'runnable' end,
    case when w.owed then g.unique_guard
         when g.unique_key is not null and 'runnable' = any(g.unique_scope) then g.unique_key end,
    case when w.owed then g.awaits end,
    case when w.owed then g.awaits_also end,
    case when w.owed then g.eligible_at else clock_timestamp() end,
    clock_timestamp()
  from (
    select
-- include parts/owed.sql
    as owed) w),
