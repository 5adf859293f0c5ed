-- Of those that pick, which say what the parameters are: returns what was taken, with its inbox.
-- What is compressed, or long, is not shown: its text may be of any length, and show asks for it. What is short and plain
-- is printed, once; numbers may make that long, too (34 times as long, or without bound if nobody has checked them), and
-- then it is not shown either. That is decided above the union: a lateral subquery for each row costs more. The first that
-- prints more than 34 times as much says so (gd.unchecked), and nothing is printed behind it: each might take that long.
leased as (
  insert into :"schema".gen_durable_leases (token, expires_at, ids)
  select $1::text, least(clock_timestamp() + $3::bigint * interval '1 microsecond',
-- include parts/first_check.sql
    ), array_agg(p.id)
  from picked p
  having count(*) > 0
), addressed as materialized (
-- include parts/addressed.sql
)
select x.id, x.fsm, x.fsm_version, x.step,
  case when octet_length(x.state) <= 4096 then x.state
       when octet_length(x.state) > 68000 then nullif(set_config('gd.unchecked', 'on', true), 'on') end as state, x.attempt,
  x.crashes, x.trials, x.wake_reason, x.ids, x.names, x.payloads, x.traces, x.partition_key, x.unique_scope, x.history, x.seq, x.priority,
  x.eligible_at as since_us2000, x.traceparent
from (
  select p.id, p.fsm, p.fsm_version, p.step,
    case when p.short and (p.id in (select a.target_id from addressed a)) is not true
              and (select coalesce(sum(a.n), 0) < 10000 from addressed a)
              and current_setting('gd.unchecked', true) is distinct from 'on' then p.state::text end as state,
    p.attempt, p.crashes, p.trials, p.wake_reason, null::bigint[] as ids, null::text[] as names, null::text[] as payloads, null::text[] as traces, p.partition_key,
    p.unique_scope, p.history, p.seq, p.priority, p.eligible_at, p.traceparent
  from picked p
  where (p.id in (select a.target_id from addressed a where a.short)) is not true or not p.short
    or (select sum(a.n) >= 10000 from addressed a)
  union all
  select p.id, p.fsm, p.fsm_version, p.step, case when inbox.ids is not null then p.state::text end, p.attempt, p.crashes,
    p.trials, p.wake_reason, inbox.ids, inbox.names, inbox.payloads, inbox.traces, p.partition_key, p.unique_scope, p.history, p.seq,
    p.priority, p.eligible_at, p.traceparent
  from picked p
  left join lateral (
-- include parts/inbox.sql
  ) inbox on true
  where p.short and (p.id in (select a.target_id from addressed a where a.short)) is true
    and (select coalesce(sum(a.n), 0) < 10000 from addressed a)
  offset 0
) x
