-- Of those that take suspects, which say what the parameters are: the first ones, as many as may run at once.
machine as materialized (
  select m.fsm, m.version from unnest($6::text[], $7::int[]) as m (fsm, version)
), locked as materialized (
  select c.*
  from machine m
  cross join lateral (
    select g.id, g.ctid as due, i.ctid as tuple, g.priority, g.eligible_at, g.crashes
    from :"schema".gen_durable_due g
-- include parts/claim_row.sql
-- include parts/suspect_rows.sql
      and g.eligible_at <= statement_timestamp()
      and g.id not in (select unnest($10::bigint[]))
      and (g.partition_key is null or g.partition_key not in (select unnest($9::text[])) and g.id = (
        select h.id
        from (select g.partition_key) k
-- include parts/key_first.sql
        ))
    order by g.priority, g.eligible_at, g.id
    limit $5::int
    for no key update of i, g skip locked
  ) c
), claimed as materialized (
  select n.id, n.due, n.tuple, n.priority, n.eligible_at
  from (
    select l.*, row_number() over (order by l.priority, l.eligible_at, l.id) as nth
    from locked l) n
  where n.nth <= $5::int
    and n.nth <= ($8::int[])[least(n.crashes - 1, cardinality($8::int[]))]
),
