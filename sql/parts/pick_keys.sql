-- Of those that pick rows with partition keys: of each key the first row, if it is no suspect and none of the key executes.
keyed_level as (
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
-- include parts/keyed_rows.sql
      order by g.priority
      limit 1
    ) x
  ) as priority
  union all
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
-- include parts/keyed_rows.sql
        and g.priority > l.priority
      order by g.priority
      limit 1
    ) x
  )
  from keyed_level l
  where l.priority is not null
), walk as materialized (
  select c.partition_key
  from keyed_level l
  cross join lateral (
    select x.partition_key
    from machine m
    cross join lateral (
      select g.partition_key, g.eligible_at, g.id
-- include parts/keyed_rows.sql
        and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit $11::int
    ) x
    order by x.eligible_at, x.id
    limit $11::int
  ) c
  where l.priority is not null
  limit $11::int
), walked as materialized (
  select distinct w.partition_key from walk w
), visit as (
  select $13::text as partition_key, false as wrapped, 0 as n
  where (select count(*) from walk) = $11::int and ($14::bool or (select count(*) from walked) < $5::int)
  union all
  select coalesce(next.partition_key, ''), v.wrapped or next.partition_key is null, v.n + 1
  from visit v
  cross join lateral (
    select min(x.partition_key) as partition_key
    from machine m
    cross join lateral (
      select g.partition_key
      from :"schema".gen_durable_due g
      where g.partition_key > '' and not g.executes
        and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(m.fsm, m.version))
        and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version and g.partition_key > v.partition_key
      order by g.partition_key
      limit 1
    ) x
  ) next
  where v.n < $11::int and not (v.wrapped and (next.partition_key is null or v.partition_key >= $13::text))
), visited as materialized (
  select v.partition_key, v.n from visit v where v.n > 0
), head as materialized (
  select h.id, h.due, h.priority, h.eligible_at
  from (
    select w.partition_key from walked w where not ($14::bool and (select count(*) from walk) = $11::int)
    union
    select v.partition_key from visited v) k
-- include parts/key_first.sql
  where k.partition_key not in (select unnest($12::text[])) and h.crashes < 2
    and h.queue = $4::text and (h.fsm, h.fsm_version) in (select m.fsm, m.version from machine m)
),
