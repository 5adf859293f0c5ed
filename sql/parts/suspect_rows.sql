-- The suspects of the machine m: runnable rows whose process has ended twice or more.
where g.crashes >= 2 and not g.executes
  and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(m.fsm, m.version))
  and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version
