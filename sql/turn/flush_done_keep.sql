-- What flush_done does, of rows without history that are deleted some time after their end.
-- $1 and $2 as in flush_done. $3 bigint how long they are kept, in us, $4 bigint how young nothing may be that is deleted, in us
with held as materialized (
  select g.id, g.ctid as tuple,
-- include parts/held_done.sql
), applied as (
-- include parts/write_done.sql
      , expires_at =
-- include parts/expiry.sql
  from (
    select $3::bigint as keep_us, $4::bigint as resend_us, cast('done' as :"schema".durable_status) as status
    offset 0) h
  where g.ctid = any(array(select x.tuple from held x where x.fenced))
  returning g.id
)
-- include parts/flushed.sql
