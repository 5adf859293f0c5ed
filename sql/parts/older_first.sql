-- Behind a condition that says which: the first of what is due (d) of a version (o) in a queue, but for what is left out: of what is
-- not null, the planner expects nearly all; of what is not in a list, half, and then a sort would look cheaper than the index.
        and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(o.queue, hashtextextended(o.fsm, o.version))
        and d.queue = o.queue and d.fsm = o.fsm and d.fsm_version = o.version
        and nullif(d.id in (select unnest($6::bigint[])), true) is not null
      order by d.priority, d.eligible_at, d.id
      limit 100
