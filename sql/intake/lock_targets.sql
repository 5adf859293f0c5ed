-- Locks the targets of signals, in id order, leaves out those that a stranger holds, and hands the list on
-- inside the transaction as gd.locked.
-- $1 bigint[] id
select set_config('gd.locked', coalesce(array_agg(t.id), '{}')::text, true)
from (
  select g.id
  from :"schema".gen_durable g
  where g.id = any($1::bigint[])
  order by g.id
  for no key update skip locked
) t
