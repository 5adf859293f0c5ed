-- Deletes entries that are older than their machine keeps them, of a page of instances in the order of
-- gen_durable_ledger_step. The last entry of an instance stays: it is the row.
-- $1 text fsm, $2 text step, $3 bigint id of the last instance of the page before; $4 int instances, $5 int the first entries of
-- each
-- A row: the last instance of this page. No row: there were none, and the next page is the first.
with looked as materialized (
  select g.fsm, g.ledger_step, g.id, g.fsm_version, g.seq
  from :"schema".gen_durable g
  where (g.fsm, g.ledger_step, g.id) > ($1::text, $2::text, $3::bigint) and g.ledger_step is not null
  order by g.fsm, g.ledger_step, g.id
  limit $4::int
), trimmed as (
  delete from :"schema".gen_durable_ledger e
  where e.ctid = any(array(
    select l.tuple
    from looked o
    cross join lateral (
      select m.history_keep
      from :"schema".gen_durable_machines m
      where m.fsm = o.fsm and m.version = o.fsm_version
      offset 0) m
    cross join lateral (
      select l.ctid as tuple, l.at, l.seq
      from :"schema".gen_durable_ledger l
      where l.instance_id = o.id and m.history_keep is not null
      order by l.seq
      limit $5::int
      for update skip locked) l
    where l.at < statement_timestamp() - m.history_keep and l.seq < o.seq))
)
select left(o.fsm, 1025) as fsm, left(o.ledger_step, 1025) as step, o.id
from looked o
order by o.fsm desc, o.ledger_step desc, o.id desc
limit 1
