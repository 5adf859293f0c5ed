-- Inserts that name no version of this machine mean this one. Behind unpin, in its transaction.
-- $1 text fsm, $2 int version, or 0: none is pinned
-- One row, answer: done; retired: it takes no inserts, and cannot be pinned; unknown: no node has made it known.
with named as materialized (
  select bool_or(m.retired) filter (where m.version = $2::int) as retired, count(*) as versions
  from :"schema".gen_durable_machines m
  where m.fsm = $1::text
), changed as (
  update :"schema".gen_durable_machines m
  set pinned = true
  where m.fsm = $1::text and m.version = $2::int and not m.retired
)
select case when n.versions = 0 or $2::int <> 0 and n.retired is null then 'unknown'
            when n.retired then 'retired'
            else 'done' end as answer
from named n
