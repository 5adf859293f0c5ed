-- What became of an insert, in a statement (and so a snapshot) of its own.
-- $1 bigint[] id, $2 bytea[] unique key, or null
-- A row for each id: whether it is there, and if not, which instance has its unique key; null: none any more.
select e.id, g.id is not null as found,
  case when g.id is null then (
    select o.id from :"schema".gen_durable o where o.unique_guard = e.unique_key) end as holder
from unnest($1::bigint[], $2::bytea[]) as e (id, unique_key)
left join lateral (select g.id from :"schema".gen_durable g where g.id = e.id offset 0) g on true
