-- The ids that stand in leases whose end may have come, the earliest first, each with the token of the lease.
  (
    select l.token, x.id
    from (
      select l.token, l.ids from :"schema".gen_durable_leases l where l.expires_at < statement_timestamp() order by l.expires_at
      offset 0) l
    cross join lateral unnest(l.ids) as x (id)
    offset 0) l
