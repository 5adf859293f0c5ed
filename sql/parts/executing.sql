-- What executes (g), by its leases, the latest first.
  (select l.token, l.ids from :"schema".gen_durable_leases l order by l.expires_at desc offset 0) l
  cross join lateral (
    select g.*
    from :"schema".gen_durable g
    where g.id = any(l.ids) and g.locked_by = l.token and g.status = 'executing'
    offset 0) g
