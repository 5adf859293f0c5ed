-- Ends a row, as failed, that could not be picked for what it holds, and says which step it was to run. No row: it has
-- changed since, or a stranger has locked it. Not failed: a trigger of somebody's lets no update of it through.
-- $1 bigint id, $2 text its place, as candidates told it, $3 text the reason
with held as materialized (
  select f.id, left(f.fsm, 1025) as fsm, f.fsm_version as version, left(f.step, 1025) as step, f.attempt,
    f.seq
  from :"schema".gen_durable f
  where f.id = $1::bigint and f.ctid = $2::text::tid and f.status = 'runnable'
  for no key update skip locked
), failed as (
  update :"schema".gen_durable g
  set status = 'failed', failed_id = g.id,
      unique_guard = case when g.unique_key is not null and 'failed' = any(g.unique_scope) then g.unique_key end,
      seq = g.seq + 1, last_error = $3::text, crashes = 0, excused = null, trials = 0, updated_at = clock_timestamp(),
      expires_at = :"schema"._gd_expiry(g.fsm, g.fsm_version, 'failed', g.unique_scope::text[])
  where g.id = any(array(select h.id from held h))
  returning g.id, 'fail' as outcome, g.step as from_step, null::text as token, g.wake_reason, g.last_error as reason,
    null::jsonb as metadata,
-- include parts/entered.sql
), unlisted as (
  delete from :"schema".gen_durable_due d
  where d.ctid = any(array(
    select d.due
    from failed f
    cross join lateral (select g.* from :"schema".gen_durable g where g.id = f.id offset 0) g
    cross join lateral
-- include parts/places.sql
    d))
), ledger as (
-- include parts/enter.sql
  from failed a
  where a.history > 0
-- include parts/entered_again.sql
)
select h.fsm, h.version, h.step, h.attempt, h.seq, (select count(*) > 0 from failed) as failed from held h
