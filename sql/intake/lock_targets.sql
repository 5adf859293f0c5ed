-- Locks the targets of signals, in id order, leaves out those that a stranger holds, and hands the list on
-- inside the transaction as gd.locked. Ids of signals are drawn behind it.
-- $1 bigint[] id
select set_config('gd.locked', coalesce(array_agg(t.id) filter (where t.id is not null), '{}')::text, true)
from :"schema"._gd_follow_timeline()
left join (
  select g.id
  from :"schema".gen_durable g
  where g.id = any($1::bigint[])
  order by g.id
  for no key update skip locked
) t on true
