-- Returns rows whose lease is over: one more attempt, and one more crash where their process has gone, crashes count, and no other
-- row is known to have caused it.
-- As many rows as the limit: there may be more.
-- A row whose unique key would be taken again by that is left to return_row.
-- A row for each: its id, queue, and, if it has one, its partition key with the token of the lease that is over.
-- $1 int limit, $2 bigint[] ids to leave alone, $3 int from how many trials on a row is not run again; 0: it always is
with most as (
  select $3::int as trials
), expired as materialized (
  select g.*, case when g.crashed then g.crashed_before || g.process else g.crashed_before end as crashed_in
  from (
    select g.id, g.locked_by, g.attempt, g.crashes, g.excused, g.trials,
-- include parts/crashed.sql
      as crashed,
-- include parts/crashed_before.sql
      as crashed_before,
-- include parts/process_of.sql
      as process
    from
-- include parts/leases_over.sql
    cross join lateral (
      select g.*
      from :"schema".gen_durable g
      where g.id = l.id and g.locked_by = l.token and g.status = 'executing' and g.lease_expires_at < statement_timestamp()
        and g.id not in (select unnest($2::bigint[]))
        and not (
-- include parts/owed.sql
        )
      for no key update skip locked) g
    limit $1::int) g
),
-- include parts/crash_charges.sql
, reaped as (
  update :"schema".gen_durable g
  set
-- include parts/runnable.sql
      , seq = g.seq + 1, attempt = least(g.attempt, 2147483646) + 1,
      crashes = v.crashes, excused = nullif(v.excused, 0), crashed_in = nullif(v.crashed_in, '{}'),
      updated_at = clock_timestamp()
  from charge v
  where g.id = any(array[v.id])
  returning g.id, g.fsm, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes, g.status, g.wake_reason, v.token,
-- include parts/entered.sql
), applied as (
  select * from reaped
),
-- include parts/listed.sql
, ledger as (
-- include parts/enter.sql
  from (
    select r.*, 'reap' as outcome, r.step as from_step, null as reason, null::jsonb as metadata
    from reaped r
    where r.history > 0) a
-- include parts/entered_again.sql
)
select r.id, left(r.queue, 1025) as queue, left(r.partition_key, 4096) as partition_key,
  case when r.partition_key is not null then left(r.token, 2048) end as token
from reaped r
