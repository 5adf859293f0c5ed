-- Behind what ends or parks instances, and returns them (applied): those with a partition key have stood in gen_durable_due.
unlisted as (
  delete from :"schema".gen_durable_due d
  where d.ctid = any(array(
    select k.due
    from applied a
-- include parts/keyed_place.sql
    where a.partition_key is not null and a.status <> 'runnable'))
)
