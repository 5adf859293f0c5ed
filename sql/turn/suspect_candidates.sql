-- What pick_suspects would take, in pick order, without taking or reading any of it: as candidates for pick.
-- $1 to $10 as in pick_suspects; $1 to $3 say nothing here. Returns what candidates returns.
with
-- include parts/claim_suspects.sql
pick as (
  select $1::text, $2::int, $3::bigint
)
select c.id, c.tuple::text as place
from claimed c
order by c.priority, c.eligible_at, c.id
