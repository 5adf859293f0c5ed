-- A version takes no more inserts, or takes them again. $1 text fsm, $2 int version, $3 bool whether it is retired
-- One row, answer: done; pinned: it is, and cannot be retired; unknown: no node has made it known.
with named as materialized (
  select m.fsm, m.version, m.pinned and $3::bool as pinned
  from :"schema".gen_durable_machines m
  where m.fsm = $1::text and m.version = $2::int
  for no key update
), changed as (
  update :"schema".gen_durable_machines m
  set retired = $3::bool
  from named n
  where m.fsm = n.fsm and m.version = n.version and not n.pinned
)
select case when not exists (select from named) then 'unknown'
            when (select n.pinned from named n) then 'pinned'
            else 'done' end as answer
