-- Looks at leases when it is time to: takes those away under which nothing executes any more, and notes of the others what does, and
-- when the first of it ends. In front of what is over nothing stands then that each look at that would read again.
-- What is over, and whose instances nobody has returned yet, stays as it is: the next page goes on behind it.
-- $1 int limit, $2 bigint where the last page ended, in us since 2000, and $3 bigint the first id there
-- One row: how many were looked at (as many as the limit: there may be more), and where this page ended.
with over as materialized (
  select l.ctid as tuple, l.expires_at, l.token, l.ids
  from :"schema".gen_durable_leases l
  where l.expires_at < statement_timestamp()
    and (l.expires_at, l.ids[1]) > (timestamptz '2000-01-01 00:00Z' + $2::bigint / 1000000 * interval '1 second'
                                  + $2::bigint % 1000000 * interval '1 microsecond', $3::bigint)
  order by l.expires_at, l.ids[1]
  limit $1::int
  for update skip locked
), state as materialized (
  select o.tuple, x.ids, x.until
  from over o
  -- Ids that were picked together are neighbours, mostly: to read those from the first to the last costs a third of looking for each.
  cross join lateral (
    select min(x) as first, max(x) as last, max(x) / 2 - min(x) / 2 <= count(*) as dense from unnest(o.ids) x) r
  cross join lateral (
    select array_agg(g.id) as ids, min(g.lease_expires_at) as until
    from (
      (
        select g.id, g.locked_by, g.status, g.lease_expires_at
        from :"schema".gen_durable g
        where r.dense and g.id between r.first and r.last
      )
      union all
      (
        select g.id, g.locked_by, g.status, g.lease_expires_at
        from :"schema".gen_durable g
        where not r.dense and g.id = any(o.ids)
      )) g
    where g.locked_by = o.token and g.status = 'executing') x
), ended as (
  delete from :"schema".gen_durable_leases l
  where l.ctid = any(array(select s.tuple from state s where s.until is null))
), put_off as (
  update :"schema".gen_durable_leases l
  set expires_at = s.until, ids = s.ids
  from state s
  where l.ctid = s.tuple and s.until >= statement_timestamp()
)
select count(*) as examined, max(o.expires_at) as at_us2000,
  coalesce((array_agg(o.ids[1] order by o.expires_at desc, o.ids[1] desc))[1], 0) as id
from over o
