-- Of those that pick, which say what the parameters are: takes what was claimed, and returns it with its inbox.
-- What is compressed, or long, is not shown: its text may be of any length, and show asks for it. What is short and plain
-- may print, at worst, as 34 times as many bytes.
picked as (
  update :"schema".gen_durable g
  set status = 'executing', locked_by = $1::text,
      lease_expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
      updated_at = clock_timestamp()
  where g.ctid = any(array(select c.tuple from claimed c))
  returning g.id, g.fsm, g.fsm_version, g.step, g.state, g.attempt, g.wake_reason, g.priority, g.eligible_at,
    g.partition_key, case when g.unique_key is not null then g.unique_scope::text[] end as unique_scope,
    pg_column_size(g.state) <= 2000 and pg_column_compression(g.state) is null as short
), addressed as materialized (
-- include parts/addressed.sql
)
select p.id, p.fsm, p.fsm_version, p.step, p.state::text as state, p.attempt, p.wake_reason,
  null::bigint[] as ids, null::text[] as names, null::text[] as payloads, p.partition_key, p.unique_scope, p.priority,
  p.eligible_at
from picked p
where p.short and (p.id in (select a.target_id from addressed a)) is not true
union all
select p.id, p.fsm, p.fsm_version, p.step, p.state::text, p.attempt, p.wake_reason,
  inbox.ids, inbox.names, inbox.payloads, p.partition_key, p.unique_scope, p.priority, p.eligible_at
from picked p
cross join lateral (
-- include parts/inbox.sql
) inbox
where p.short and (p.id in (select a.target_id from addressed a where a.short)) is true
union all
select p.id, p.fsm, p.fsm_version, p.step, null, p.attempt, p.wake_reason,
  null, null, null, p.partition_key, p.unique_scope, p.priority, p.eligible_at
from picked p
where not p.short or (p.id in (select a.target_id from addressed a where not a.short)) is true
