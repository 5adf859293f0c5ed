-- The row of gen_durable_due of a, an instance with a partition key that has executed, by its place there.
  cross join lateral (
    select d.ctid as due
    from :"schema".gen_durable_due d
    where d.partition_key = a.partition_key and d.executes = (select true) and d.id = a.id
    limit 1
  ) k
