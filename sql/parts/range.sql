-- A range of the pick order: the eligible rows of r, a machine's of one priority, from a place on.
where (g.partition_key is null) is true and g.crashes < 2
  and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(r.fsm, r.version))
  and g.queue = $4::text and g.fsm = r.fsm and g.fsm_version = r.version and g.priority = r.priority
  and g.eligible_at <= statement_timestamp()
  and (g.eligible_at, g.id) >= (r.since, r.id)
