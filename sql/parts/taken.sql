-- Of those that pick, which say what the parameters are: takes what was claimed. What it may return of a row has limits.
-- Names have a limit, and a scope has five statuses. Longer ones are not ours: a step's name is cut, which no machine has
-- then, and with such a scope any outcome may collide.
picked as (
  update :"schema".gen_durable g
  set status = 'executing',
      unique_guard = case when g.unique_guard is not null and 'executing' = any(g.unique_scope) then g.unique_guard end,
      locked_by = $1::text,
      lease_expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
      updated_at = clock_timestamp()
  where g.ctid = any(array(select c.tuple from claimed c))
  returning g.id, g.fsm, g.fsm_version,
    case when octet_length(g.step) <= 1025 then g.step else left(g.step, 1025) end as step, -- left copies what it does not cut
    g.state, g.attempt, g.crashes + coalesce(g.excused, 0) as crashes, g.trials, g.wake_reason, g.priority, g.eligible_at, g.partition_key,
    case when g.unique_key is null then null
         when pg_column_size(g.unique_scope) <= 64 and cardinality(g.unique_scope) <= 5 then g.unique_scope::text[]
         else '{runnable,awaiting_signal,done,failed}' end as unique_scope, g.history, nullif(g.seq, 0) as seq, left(g.traceparent, 55) as traceparent,
    pg_column_size(g.state) <= 2000 and pg_column_compression(g.state) is null as short
), unlisted as (
  delete from :"schema".gen_durable_due d
  where d.ctid = any(array(select c.due from claimed c)) and (d.partition_key is null) is true
    and ((select count(*) from picked) = (select count(*) from claimed) or (d.id in (select p.id from picked p)) is true)
),
