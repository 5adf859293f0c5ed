-- Of those that write `next`: the rows of the outcomes, locked.
with held as materialized (
  select e.id, e.step, e.state, g.tuple, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as e (id, token, step, state)
    order by e.id
  ) e
-- include parts/lock_row.sql
),
