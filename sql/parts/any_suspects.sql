-- Of those that pick: whether the queue has suspects of a machine that this node knows.
  (
    select count(*) > 0
    from (
      select
      from machine m
      cross join lateral (
        select g.priority
        from :"schema".gen_durable_due g
-- include parts/suspect_rows.sql
        limit 1
      ) x
      limit 1
    ) s
  )
