-- Writes outcomes and give-backs. Each applies only under its own lease token (spec [A1]); signals that an applied
-- outcome consumed go in the same statement, guarded by its RETURNING.
-- A row without id: the list of those that are done. A row with a holder: the row's unique key would become that
-- instance's, too, and nothing was changed (spec section 8). Without: stale, the lease is another's or gone. No row: a
-- stranger holds the row's lock (or it is deleted); try again. A row whose key might collide may wait for a stranger's
-- insert: such rows go in a group of their own, behind lock_timeout.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] outcome: next, replay, await, done, stop, release,
-- $4 text[] step, $5 text[] state (JSON), $6 text[] result (JSON), $7 bigint[] replay's delay in us, $8 text[] awaited
-- name, $9 bigint[] its timeout in us, or null, $10 bigint[] its deadline in us since 1970, or null, $11 text[] reason;
-- $4 to $11 may be shorter: what is missing is null;
-- $12 bigint[] ids of the signals consumed by all of them
with held as materialized (
  select e.*, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
    g.unique_key, g.unique_scope,
    cast(case e.outcome when 'await' then 'awaiting_signal' when 'done' then 'done' when 'stop' then 'failed'
                        else 'runnable' end as :"schema".durable_status) as status
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
                $9::bigint[], $10::bigint[], $11::text[])
      as e (id, token, outcome, step, state, result, delay_us, awaits, timeout_us, until_us, reason)
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
      last_error = case when h.outcome = 'stop' then h.reason else g.last_error end,
      attempt = case h.outcome when 'next' then 0 when 'replay' then least(g.attempt, 2147483646) + 1 else g.attempt end,
      eligible_at = case h.outcome when 'next' then clock_timestamp()
                                   when 'replay' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   else g.eligible_at end,
      awaits = h.awaits,
      deadline = case when h.outcome in ('replay', 'release') then g.deadline
                      when h.timeout_us is not null then clock_timestamp() + h.timeout_us * interval '1 microsecond'
                      else timestamptz 'epoch' + h.until_us / 1000000 * interval '1 second'
                             + h.until_us % 1000000 * interval '1 microsecond' end,
      wake_reason = case when h.outcome in ('replay', 'release') then g.wake_reason end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  from checked h
  where g.id = any(array[h.id]) and h.fenced and h.holder is null
  returning g.id
), gone as (
  delete from :"schema".signals s
  where s.id = any($12::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is null end
), remembered as (
  update :"schema".signals s
  set consumed_at = clock_timestamp(), payload = '{}'
  where s.id = any($12::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is not null end
)
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, h.holder from checked h where not h.fenced or h.holder is not null
