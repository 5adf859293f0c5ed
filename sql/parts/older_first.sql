-- Behind a condition that says which: the first of what is due (d) of a version (o) in a queue.
        and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(o.queue, hashtextextended(o.fsm, o.version))
        and d.queue = o.queue and d.fsm = o.fsm and d.fsm_version = o.version
      order by d.priority, d.eligible_at, d.id
      limit 100
