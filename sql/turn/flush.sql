-- Writes outcomes and give-backs. Each applies only under its own lease token; signals that an applied
-- outcome consumed go in the same statement, guarded by its RETURNING.
-- A row without id: the list of those that are done. A row with a holder: the row's unique key would become that
-- instance's, too, and nothing was changed. Without: stale, the lease is another's or gone. No row: a
-- stranger holds the row's lock (or it is deleted); try again. A row whose key might collide may wait for a stranger's
-- insert: such rows go in a group of their own, behind lock_timeout.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON), $5 bigint[] ids of the signals
-- consumed by all of them, $6 text[] outcome: next, replay, await, done, stop, release, $7 text[] result (JSON), $8 bigint[]
-- replay's delay in us, $9 text[] awaited name, $10 bigint[] its timeout in us, or null, $11 bigint[] its deadline in us
-- since 1970, or null, $12 text[] last_error: the reason of a stop, or the failure that led to another outcome. All but $1,
-- $2, $5 and $6 may be shorter: what is missing is null.
with held as materialized (
  select e.*, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
    g.unique_key, g.unique_scope,
    cast(case e.outcome when 'await' then 'awaiting_signal' when 'done' then 'done' when 'stop' then 'failed'
                        else 'runnable' end as :"schema".durable_status) as status
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
                $10::bigint[], $11::bigint[], $12::text[])
      as e (id, token, step, state, outcome, result, delay_us, awaits, timeout_us, until_us, error)
    order by e.id
  ) e
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
      step = case when h.outcome = 'next' then h.step else g.step end,
      state = case when h.outcome in ('next', 'replay', 'await') then h.state::jsonb else g.state end,
      result = case when h.outcome = 'done' then h.result::jsonb else g.result end,
      last_error = case when h.outcome = 'release' then g.last_error else h.error end,
      attempt = case when h.outcome in ('next', 'await') then 0
                     when h.outcome = 'replay' then least(greatest(g.attempt - g.crashes, 0), 2147483646) + 1
                     else g.attempt end,
      crashes = case when h.outcome = 'release' then g.crashes else 0 end,
      trials = case when h.outcome = 'release' then g.trials else 0 end,
      eligible_at = case h.outcome when 'next' then clock_timestamp()
                                   when 'replay' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   else g.eligible_at end,
      awaits = h.awaits,
      deadline = case when h.outcome in ('replay', 'stop', 'release') then g.deadline
                      when h.timeout_us is not null then clock_timestamp() + h.timeout_us * interval '1 microsecond'
                      else timestamptz 'epoch' + h.until_us / 1000000 * interval '1 second'
                             + h.until_us % 1000000 * interval '1 microsecond' end,
      wake_reason = case when h.outcome in ('replay', 'stop', 'release') then g.wake_reason end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  from checked h
  where g.id = any(array[h.id]) and h.fenced and h.holder is null
  returning g.id
),
-- include parts/consumed.sql
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, h.holder from checked h where not h.fenced or h.holder is not null
