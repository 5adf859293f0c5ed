-- Writes outcomes that are `next`, of rows whose unique key cannot collide and that have consumed no signal: what flush
-- would write, for less, because no column depends on the kind of outcome.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON)
with held as materialized (
  select e.id, e.step, e.state, g.tuple, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as e (id, token, step, state)
    order by e.id
  ) e
-- include parts/lock_row.sql
), applied as (
  update :"schema".gen_durable g
  set status = 'runnable', step = h.step, state = h.state::jsonb, attempt = 0, eligible_at = clock_timestamp(),
      awaits = null, deadline = null, wake_reason = null,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id
)
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, null from held h where not h.fenced
