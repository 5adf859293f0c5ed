-- Ends a row, as failed, that could not be picked for what it holds. No row: it has changed since, or a stranger has
-- locked it.
-- $1 bigint id, $2 text its place, as candidates told it, $3 text the reason
update :"schema".gen_durable g
set status = 'failed', last_error = $3::text, updated_at = clock_timestamp()
where g.id = (
    select f.id
    from :"schema".gen_durable f
    where f.id = $1::bigint
    for no key update skip locked)
  and g.ctid = $2::text::tid and g.status = 'runnable'
returning g.id
