-- Puts off the deletion of instances that cannot be deleted: as long again as their time has been over, a minute at least and
-- a day at the most. Who is locked is left as it is.
-- $1 bigint[] id
with held as materialized (
  select g.tuple
  from (select unnest($1::bigint[]) as id order by 1) e
  cross join lateral (
    select g.ctid as tuple
    from :"schema".gen_durable g
    where g.id = e.id and g.status in ('done', 'failed') and g.expires_at < statement_timestamp()
    for no key update skip locked
  ) g
)
update :"schema".gen_durable g
set expires_at = clock_timestamp()
  + least(greatest(clock_timestamp() - g.updated_at, interval '1 minute'), interval '1 day')
where g.ctid = any(array(select h.tuple from held h))
