-- Extends leases. A row with extended = true: done. False: the lease is lost. No row: a stranger holds the row's lock
-- (or the row is deleted); try again, alone.
-- $1 bigint[] id, $2 text[] token, $3 bigint lease in us
with held as materialized (
  select e.id, e.token, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (select * from unnest($1::bigint[], $2::text[]) as e (id, token) order by e.id) e
-- include parts/lock_row.sql
), extended as (
  update :"schema".gen_durable g
  set lease_expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
  from held h
  where g.id = any(array[h.id]) and h.fenced
  returning g.id, h.token
)
select x.id, x.token, true as extended from extended x
union all
select h.id, h.token, false from held h where not h.fenced
