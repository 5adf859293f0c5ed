-- Returns rows whose lease is over: one more attempt, and one more crash where their process has gone and crashes count.
-- As many rows as the limit: there may be more.
-- A row whose unique key would be taken again by that is left to return_row.
-- A row for each: its id, queue, and, if it has one, its partition key with the token of the lease that is over.
-- $1 int limit, $2 bigint[] ids to leave alone
with expired as materialized (
  select g.id, g.locked_by,
-- include parts/crashed.sql
    as crashed
  from :"schema".gen_durable g
  where g.status = 'executing' and g.lease_expires_at < statement_timestamp()
    and g.id not in (select unnest($2::bigint[]))
    and not (
-- include parts/owed.sql
    )
  order by g.lease_expires_at
  limit $1::int
  for no key update skip locked
), reaped as (
  update :"schema".gen_durable g
  set status = 'runnable', seq = g.seq + 1, attempt = least(g.attempt, 2147483646) + 1,
      crashes = least(g.crashes, 2147483646)
        + case when g.id in (select e.id from expired e where e.crashed) then 1 else 0 end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  where g.id = any(array(select id from expired))
  returning g.id, g.queue, g.partition_key, g.wake_reason,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from (
    select r.*, 'reap' as outcome, r.step as from_step, e.locked_by as token, null as reason, null::jsonb as metadata
    from reaped r
    join expired e on e.id = r.id
    where r.history > 0) a
-- include parts/entered_again.sql
)
select r.id, left(r.queue, 1025) as queue, left(r.partition_key, 4096) as partition_key,
  case when r.partition_key is not null then left(e.locked_by, 2048) end as token
from reaped r
join expired e on e.id = r.id
