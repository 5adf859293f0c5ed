-- What pick_keyed would take, in pick order, without taking or reading any of it: for after a pick that failed for what
-- one of these rows holds. pick_these takes them then. It locks them, for as long as it takes: what strangers have locked is
-- passed over as in the pick that failed.
-- $1 to $15 as in pick_keyed; $1 to $3 say nothing here.
-- A row for each: its id, and its place, which is another one when it has changed.
with recursive
-- include parts/pick_free.sql
-- include parts/pick_keys.sql
-- include parts/claim_keyed.sql
pick as (
  select $1::text, $2::int, $3::bigint
)
select c.id, c.tuple::text as place
from claimed c
order by c.priority, c.eligible_at, c.id
