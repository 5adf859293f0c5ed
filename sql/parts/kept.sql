-- Of those that pick rows with partition keys, too: these stay in gen_durable_due while they execute.
kept as (
  update :"schema".gen_durable_due d
  set executes = true
  where d.ctid = any(array(
    select c.due
    from claimed c
    where (select true from picked p where p.partition_key is not null limit 1)))
    and (d.partition_key is null) is not true and (d.id in (select p.id from picked p)) is true
),
