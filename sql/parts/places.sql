-- The row of gen_durable_due of g, an instance that is runnable, by its place there.
  (
    (
      select d.ctid as due
      from :"schema".gen_durable_due d
      where g.partition_key is null and g.crashes < 2 and (d.partition_key is null) is true and d.crashes < 2
        and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version))
        and d.queue = g.queue and d.fsm = g.fsm and d.fsm_version = g.fsm_version and d.priority = g.priority
        and d.eligible_at = g.eligible_at and d.id = g.id
      limit 1
    )
    union all
    (
      select d.ctid
      from :"schema".gen_durable_due d
      where g.partition_key is null and g.crashes >= 2 and d.crashes >= 2 and not d.executes
        and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version))
        and d.queue = g.queue and d.fsm = g.fsm and d.fsm_version = g.fsm_version and d.priority = g.priority
        and d.eligible_at = g.eligible_at and d.id = g.id
      limit 1
    )
    union all
    (
      select d.ctid
      from :"schema".gen_durable_due d
      where d.partition_key = g.partition_key and d.executes = (select false) and d.priority = g.priority
        and d.eligible_at = g.eligible_at and d.id = g.id
      limit 1
    ))
