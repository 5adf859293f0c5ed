-- Of flush and flush_ledger, behind their entries: locks their rows, and writes what is under its own lease and collides with
-- no unique key. What it returns stands behind this.
held as materialized (
  select e.*, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
    g.unique_key, g.unique_scope, g.step as from_step, g.wake_reason,
    cast(case e.outcome when 'await' then 'awaiting_signal' when 'park' then 'awaiting_signal' when 'done' then 'done'
                        when 'finish' then 'done' when 'stop' then 'failed' else 'runnable' end
         as :"schema".durable_status) as status,
    e.outcome in ('next', 'park', 'finish') as moves
  from entry e
-- include parts/lock_row.sql
), checked as materialized (
  select h.*,
    case when h.fenced and h.unique_key is not null and h.status = any(h.unique_scope)
              and not 'executing' = any(h.unique_scope) then (
      select o.id from :"schema".gen_durable o where o.unique_guard = h.unique_key) end as holder
  from held h
), applied as (
  update :"schema".gen_durable g
  set status = h.status,
      seq = case when h.outcome = 'release' then g.seq else g.seq + 1 end,
      step = case when h.moves then h.step else g.step end,
      ledger_step = case when g.history = 0 then null when h.moves then h.step else g.step end,
      state = case when h.moves or h.outcome in ('replay', 'await') then h.state::jsonb else g.state end,
      result = case h.outcome when 'done' then h.result::jsonb when 'finish' then '{}' else g.result end,
      last_error = case when h.outcome = 'release' then g.last_error else h.error end,
      attempt = case when h.moves or h.outcome = 'await' then 0
                     when h.outcome = 'replay' then least(greatest(g.attempt - g.crashes, 0), 2147483646) + 1
                     else g.attempt end,
      crashes = case when h.outcome = 'release' then g.crashes else 0 end,
      trials = case when h.outcome = 'release' then g.trials else 0 end,
      eligible_at = case h.outcome when 'next' then clock_timestamp()
                                   when 'replay' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   else g.eligible_at end,
      awaits = case when h.outcome = 'park' then '' else h.awaits end, -- of no signal's name
      deadline = case when h.outcome in ('replay', 'stop', 'release') then g.deadline
                      when h.timeout_us is not null then clock_timestamp() + h.timeout_us * interval '1 microsecond'
                      else timestamptz 'epoch' + h.until_us / 1000000 * interval '1 second'
                             + h.until_us % 1000000 * interval '1 microsecond' end,
      wake_reason = case when h.outcome in ('replay', 'stop', 'release') then g.wake_reason end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  from checked h
  where g.id = any(array[h.id]) and h.fenced and h.holder is null
