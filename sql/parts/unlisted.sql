-- Behind what ends or parks instances, and returns them (applied): those with a partition key have stood in gen_durable_due.
unlisted as (
  delete from :"schema".gen_durable_due d
  using applied a
  where a.partition_key is not null and a.status <> 'runnable' and d.partition_key = a.partition_key and d.id = any(array[a.id])
)
