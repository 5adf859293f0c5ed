-- Writes `next` outcomes of rows that go on at once: they stay executing, under a new lease token. No indexed column
-- changes, so that the new version stays on its page and no index is written (HOT): the lease's end is the heartbeat's, and
-- eligible_at keeps the row's place in its queue. Signals that an applied outcome consumed go as in flush.
-- A row without id: the list of those that are done. A row: stale. No row: a stranger holds the row's lock (or it is
-- deleted); try again.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON), $5 text the new token of all,
-- $6 bigint[] ids of the signals consumed by all of them
with held as materialized (
  select e.id, (g.locked_by = e.token and g.status = 'executing') is true as fenced, e.step, e.state
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as e (id, token, step, state)
    order by e.id
  ) e
-- include parts/lock_row.sql
), applied as (
  update :"schema".gen_durable g
  set step = h.step, state = h.state::jsonb, attempt = 0, deadline = null, wake_reason = null, locked_by = $5::text,
      updated_at = clock_timestamp()
  from held h
  where g.id = any(array[h.id]) and h.fenced
  returning g.id
), gone as (
  delete from :"schema".signals s
  where s.id = any($6::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is null end
), remembered as (
  update :"schema".signals s
  set consumed_at = clock_timestamp(), payload = '{}'
  where s.id = any($6::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is not null end
)
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, null from held h where not h.fenced
