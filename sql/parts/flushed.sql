-- The answer of those that write outcomes whose rows cannot collide: see flush.
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, null from held h where not h.fenced
