-- Rows whose lease is over, or will be soon, and whether a stranger has locked them: the node of those lives, for all that
-- is known, and cannot extend them. Run before reap, in pages until there are no more: it leaves those out until their node
-- has had time to.
-- $1 int limit, $2 bigint how soon, in us, $3 bigint where the last page ended, in us since 2000, and $4 bigint the id there
-- A row for each, as many as the limit: there may be more: its id, when its lease ends, in us since 2000; locked; whether this
-- waits for a standby, as heartbeats do: who is answered knows that commits end again.
with replicated as materialized (
  select
-- include parts/replicated.sql
    as lsn
), ending as materialized (
  select g.id, g.lease_expires_at
  from :"schema".gen_durable_leases l
  cross join lateral unnest(l.ids) as x (id)
  cross join lateral (
    select g.id, g.lease_expires_at
    from :"schema".gen_durable g
    where g.id = x.id and g.locked_by = l.token and g.status = 'executing'
    offset 0) g
  where l.expires_at < statement_timestamp() + $2::bigint * interval '1 microsecond'
    and g.lease_expires_at < statement_timestamp() + $2::bigint * interval '1 microsecond'
    and (g.lease_expires_at, g.id) > (timestamptz '2000-01-01 00:00Z' + $3::bigint / 1000000 * interval '1 second'
                                        + $3::bigint % 1000000 * interval '1 microsecond', $4::bigint)
  order by g.lease_expires_at, g.id
  limit $1::int
), free as materialized (
  select g.id
  from :"schema".gen_durable g
  where g.id = any(array(select e.id from ending e))
  for no key update skip locked
)
select e.id, e.lease_expires_at as at_us2000, e.id not in (select f.id from free f) as locked, r.lsn is not null as waits
from ending e
cross join replicated r
order by e.lease_expires_at, e.id
