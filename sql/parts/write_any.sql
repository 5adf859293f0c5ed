-- Of flush and flush_ledger, behind the rows that they hold: writes what is under its own lease and collides with no unique
-- key. Which of them stands behind this.
checked as materialized (
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
      state = case when h.moves or h.outcome in ('replay', 'await') then h.state::jsonb else g.state end,
      result = case h.outcome when 'done' then h.result::jsonb when 'finish' then '{}' else g.result end,
      last_error = case when h.outcome = 'release' then g.last_error else h.error end,
      attempt = case when h.moves or h.outcome = 'await' then 0
                     when h.outcome = 'replay' then least(greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0), 2147483646) + 1
                     else g.attempt end,
      crashes = case when h.outcome = 'release' then g.crashes else 0 end,
      excused = case when h.outcome = 'release' then g.excused end,
      trials = case when h.outcome = 'release' then g.trials else 0 end,
      eligible_at = case h.outcome when 'next' then clock_timestamp()
                                   when 'replay' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   when 'later' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   else g.eligible_at end,
      awaits = case when h.outcome = 'park' then '' else h.awaits end, -- of no signal's name
      awaits_also = case when h.awaits_also is not null then array(
        select n.name from jsonb_array_elements_text(h.awaits_also::jsonb) with ordinality as n (name, i) order by n.i) end,
      deadline = case when h.outcome in ('replay', 'stop', 'release') then g.deadline
                      when h.timeout_us is not null then clock_timestamp() + h.timeout_us * interval '1 microsecond'
                      else timestamptz 'epoch' + h.until_us / 1000000 * interval '1 second'
                             + h.until_us % 1000000 * interval '1 microsecond' end,
      wake_reason = case when h.outcome in ('replay', 'stop', 'release') then g.wake_reason end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
