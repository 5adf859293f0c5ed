-- The priorities of the rows of key k that are runnable, the most urgent first, each by one probe; a null ends them.
with recursive level as (
  select (
    select g.priority
    from :"schema".gen_durable_due g
    where g.partition_key = k.partition_key and g.executes = (select false)
    order by g.priority
    limit 1
  ) as priority
  union all
  select (
    select g.priority
    from :"schema".gen_durable_due g
    where g.partition_key = k.partition_key and g.executes = (select false) and g.priority > l.priority
    order by g.priority
    limit 1
  )
  from level l
  where l.priority is not null
)
