-- For tests: as if the lease of a row had just ended. $1 bigint id, $2 text its token
with over as (
  update :"schema".gen_durable_leases l
  set expires_at = clock_timestamp()
  where l.token = $2::text and $1::bigint = any(l.ids)
)
update :"schema".gen_durable g
set lease_expires_at = clock_timestamp()
where g.id = $1::bigint and g.locked_by = $2::text and g.status = 'executing'
