-- Of those that write plain `done`: the rows of the outcomes, locked. They are found by one scan for all ids, and their tokens
-- by a hash table: one by one, as for flush, costs more. The sum in the order keeps a plan made for an empty table from
-- reading all of the primary key in its order. Which columns more stands before this.
    ((g.id, g.locked_by) in (select e.id, e.token from unnest($1::bigint[], $2::text[]) as e (id, token))
      and g.status = 'executing') is true as fenced
  from :"schema".gen_durable g
  where g.id = any($1::bigint[])
  order by g.id + 0
  for no key update skip locked
