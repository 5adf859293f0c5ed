-- Takes leases away under which nothing executes any more, and notes of the others when the first of their instances' ends. Before the
-- looks at what is over: each of those reads all that stand here.
-- $1 int limit. No row.
with over as materialized (
  select l.id, l.ctid as tuple, l.token, l.ids
  from :"schema".gen_durable_leases l
  where l.expires_at < statement_timestamp()
  order by l.expires_at
  limit $1::int
  for update skip locked
), state as materialized (
  select o.id, o.tuple, (
    select min(g.lease_expires_at)
    from unnest(o.ids) as x (id)
    cross join lateral (
      select g.lease_expires_at
      from :"schema".gen_durable g
      where g.id = x.id and g.locked_by = o.token and g.status = 'executing'
      offset 0) g) as until
  from over o
), ended as (
  delete from :"schema".gen_durable_leases l
  where l.ctid = any(array(select s.tuple from state s where s.until is null))
)
update :"schema".gen_durable_leases l
set expires_at = s.until
from state s
where l.ctid = s.tuple and s.until >= statement_timestamp()
