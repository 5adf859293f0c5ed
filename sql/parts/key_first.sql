-- The first row that is due of a key k, as h, unless one of the key executes. Mostly the first of all is due; else its priorities are
-- walked.
cross join lateral (
  select x.*
  from (
    select f.*
    from (
      select g.id, g.ctid as due, g.priority, g.eligible_at, g.queue, g.fsm, g.fsm_version, g.crashes
      from :"schema".gen_durable_due g
      where g.partition_key = k.partition_key and g.executes = (select false)
      order by g.priority, g.eligible_at, g.id
      limit 1
    ) f
    where f.eligible_at <= statement_timestamp()
    union all
    (
-- include parts/key_levels.sql
      select f.*
      from level l
      cross join lateral (
        select g.id, g.ctid as due, g.priority, g.eligible_at, g.queue, g.fsm, g.fsm_version, g.crashes
        from :"schema".gen_durable_due g
        where g.partition_key = k.partition_key and g.executes = (select false) and g.priority = l.priority
          and g.eligible_at <= statement_timestamp()
        order by g.eligible_at, g.id
        limit 1
      ) f
    )
    limit 1
  ) x
  where (select o.id from :"schema".gen_durable_due o
         where o.partition_key = k.partition_key and o.executes = (select true)
         limit 1) is null
) h
