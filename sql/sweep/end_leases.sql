-- Looks at leases when it is time to: takes those away under which nothing executes any more, and notes of the others what does, and
-- when the first of it ends. In front of what is over nothing stands then that each look at that would read again.
-- What is over, and whose instances nobody has returned yet, stays as it is: the next page goes on behind it.
-- $1 int limit, $2 bigint where the last page ended, in us since 2000, and $3 bigint the id there
-- One row: how many were looked at (as many as the limit: there may be more), and where this page ended.
with over as materialized (
  select l.ctid as tuple, l.id, l.expires_at, l.token, l.ids
  from :"schema".gen_durable_leases l
  where l.expires_at < statement_timestamp()
    and (l.expires_at, l.id) > (timestamptz '2000-01-01 00:00Z' + $2::bigint / 1000000 * interval '1 second'
                                  + $2::bigint % 1000000 * interval '1 microsecond', $3::bigint)
  order by l.expires_at, l.id
  limit $1::int
  for update skip locked
), state as materialized (
  select o.tuple, x.ids, x.until
  from over o
  cross join lateral (
    select array_agg(g.id) as ids, min(g.lease_expires_at) as until
    from :"schema".gen_durable g
    where g.id = any(o.ids) and g.locked_by = o.token and g.status = 'executing') x
), ended as (
  delete from :"schema".gen_durable_leases l
  where l.ctid = any(array(select s.tuple from state s where s.until is null))
), put_off as (
  update :"schema".gen_durable_leases l
  set expires_at = s.until, ids = s.ids
  from state s
  where l.ctid = s.tuple and s.until >= statement_timestamp()
)
select count(*) as looked, max(o.expires_at) as at_us2000,
  coalesce((array_agg(o.id order by o.expires_at desc, o.id desc))[1], 0) as id
from over o
