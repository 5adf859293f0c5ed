-- Makes one row runnable: of those that returning has found, or, when all of them together cannot be, one whose lease is over
-- or whose deadline has passed. If another has its unique key it stays as it is, and its turn comes again behind the others.
-- May wait for a stranger's insert of the key: alone, behind lock_timeout.
-- A row: its id, queue, whether it is runnable now, and, if its lease was over, its partition key and that lease's token.
-- No row: there is nothing left to do, or a stranger holds the row's lock.
-- $1 bigint id, $2 bool whether leases may be reaped, $3 int as $3 of reap
with most as (
  select $3::int as trials
), held as materialized (
  select g.id, g.status, g.locked_by, g.attempt, g.crashes, g.excused, g.trials,
-- include parts/crashed.sql
    as crashed,
-- include parts/crashed_before.sql
    as crashed_before,
-- include parts/process_of.sql
    as process,
    (select o.id from :"schema".gen_durable o where o.unique_guard = g.unique_key limit 1) is null as free
  from :"schema".gen_durable g
  where g.id = $1::bigint
    and (g.status = 'awaiting_signal' and (g.wake_reason is not null or g.deadline <= statement_timestamp())
         or $2::bool and g.status = 'executing' and g.lease_expires_at < statement_timestamp())
  for no key update skip locked
), expired as materialized (
  select h.*, case when h.crashed then h.crashed_before || h.process else h.crashed_before end as crashed_in
  from held h
  where h.free and h.status = 'executing'
),
-- include parts/crash_charges.sql
, returned as (
  update :"schema".gen_durable g
  set status = case when h.free then 'runnable' else g.status end,
      unique_guard = case when not h.free then g.unique_guard
                          when g.unique_key is not null and 'runnable' = any(g.unique_scope) then g.unique_key end,
      seq = g.seq + case when h.free and h.status = 'executing' then 1 else 0 end, -- else it is a wake-up
      awaits = case when not h.free then g.awaits end,
      awaits_also = case when not h.free then g.awaits_also end,
      deadline = case when h.free or h.status = 'executing' or g.wake_reason is not null then g.deadline end, -- owed from now on
      wake_reason = case when h.status = 'awaiting_signal' then coalesce(g.wake_reason, 'timeout') else g.wake_reason end,
      attempt = case when h.free and h.status = 'executing' then least(g.attempt, 2147483646) + 1 else g.attempt end,
      crashes = coalesce(v.crashes, g.crashes),
      excused = case when v.id is null then g.excused else nullif(v.excused, 0) end,
      crashed_in = case when v.id is null then g.crashed_in else nullif(v.crashed_in, '{}') end,
      eligible_at = case when h.free and h.status = 'awaiting_signal' then clock_timestamp() else g.eligible_at end,
      locked_by = case when not h.free then g.locked_by end,
      lease_expires_at = case when not h.free and h.status = 'executing' then clock_timestamp() + interval '5 seconds' end,
      updated_at = clock_timestamp()
  from held h
  left join charge v on v.id = h.id
  where g.id = any(array[h.id])
  returning g.id, g.fsm, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes, g.status as status_now, h.free, h.status,
    h.locked_by, h.locked_by as token, 'reap' as outcome,
    g.step as from_step, g.wake_reason, null::text as reason, null::jsonb as metadata,
-- include parts/entered.sql
), applied as (
  select r.id, r.fsm, r.fsm_version, r.queue, r.partition_key, r.priority, r.eligible_at, r.crashes, r.status_now as status
  from returned r
),
-- include parts/listed.sql
, ledger as (
-- include parts/enter.sql
  from returned a
  where a.history > 0 and a.free and a.status = 'executing'
-- include parts/entered_again.sql
)
select r.id, left(r.queue, 1025) as queue, r.free as runnable,
  case when r.free and r.status = 'executing' then left(r.partition_key, 4096) end as partition_key,
  case when r.free and r.status = 'executing' and r.partition_key is not null then left(r.locked_by, 2048) end as token
from returned r
