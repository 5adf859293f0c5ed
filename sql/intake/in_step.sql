-- Instances with history that are in a step, the newest first. One after the other, and compared such that no index but
-- gen_durable_ledger_step has the order: no plan reads all that are in the step. The step's end is a condition of its own: a
-- comparison of rows ends a scan only by its first column.
-- $1 text fsm, $2 text step, $3 text status, or empty: any; $4 bigint: instances before this one; $5 int limit
-- With a status, those in the step that have another one are passed over, however many.
-- A row for each. Time in us since 1970.
with recursive found as (
  select 0 as n, $4::bigint as id
  union all
  select f.n + 1, x.id
  from found f
  cross join lateral (
    select g.id
    from :"schema".gen_durable g
    where g.fsm = $1::text and g.ledger_step >= $2::text and (g.ledger_step, g.id) < ($2::text, f.id)
      and case when $3::text = '' then true else g.status::text = $3::text end
    order by g.ledger_step desc, g.id desc
    limit 1
  ) x
  where f.n < $5::int
)
select g.id, g.fsm_version as version, g.status::text as status, g.seq,
  :"schema"._gd_us(g.updated_at) as updated_at_us
from found f
cross join lateral (select g.* from :"schema".gen_durable g where g.id = f.id offset 0) g
where f.n > 0
order by f.n
