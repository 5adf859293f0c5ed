-- Behind the outcomes of rows with history, in their transaction: how many effects those have carried, in their entries.
-- $1 bigint[] id, $2 bigint[] how many
with entries as materialized (
  select l.tuple, e.effects
  from unnest($1::bigint[], $2::bigint[]) as e (id, effects)
  cross join lateral (
    select g.seq from :"schema".gen_durable g where g.id = e.id offset 0) g
  cross join lateral (
    select l.ctid as tuple from :"schema".gen_durable_ledger l
    where l.instance_id = e.id and l.seq = g.seq offset 0) l
)
update :"schema".gen_durable_ledger l
set effects = e.effects
from entries e
where l.ctid = e.tuple
