-- Behind insert_effects, in a snapshot of its own: who has the unique keys that inserts name.
-- $1 bytea[] unique key
-- A row for each, in the order given: the machine of the instance that has it, and that instance; null: nobody has.
select left(o.fsm, 1025) as fsm, o.id as holder
from unnest($1::bytea[]) with ordinality e (unique_key, n)
left join lateral (
  select o.id, o.fsm from :"schema".gen_durable o where o.unique_guard = e.unique_key offset 0) o on true
order by e.n
