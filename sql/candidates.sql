-- What pick_keyed would try, in pick order, without taking or reading any of it: for after a pick that failed for what
-- one of these rows holds. pick_these takes them then.
-- $1 to $14 as in pick_keyed; $1 to $3 say nothing here.
-- A row for each: its id, and its place, which is another one when it has changed.
with recursive
-- include parts/pick_free.sql
-- include parts/pick_keys.sql
pick as (
  select $1::text, $2::int, $3::bigint
)
select c.id, c.tuple::text as place
from (select f.id, f.tuple, f.priority, f.eligible_at from free f union all select h.* from head h) c
order by c.priority, c.eligible_at, c.id
limit $5::int
