-- Picks from a queue that has rows with a partition key, too; lock_keys, check_keys and hold_keys follow. See pick.
-- Of each partition key only the first eligible row counts, and only if no row of the key executes (spec [A9]). Keys are
-- found by walking the keyed rows in pick order. If a backlog of a few keys fills that walk, as many distinct keys are
-- visited from where the last visit ended: keys then take turns, and only among keys is the order no longer exact.
-- A status behind a select is not known to the planner: it could otherwise, while the table is small, decide to read all
-- of an index that holds only rows of that status, instead of the key's rows in gen_durable_key.
-- $1 to $9 as in pick; $10 text[] keys to leave alone, $11 text the key that the last visit ended with.
-- One row has no id: its partition_key is the key that this visit ended with; its attempt is not 0 if there are keyed
-- rows; its eligible_at is now. Ids of picked rows with a key are handed on inside the transaction as gd.keyed.
with recursive
-- include parts/pick_free.sql
keyed_level as (
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version
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
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority > l.priority
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
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 2 * $2::int
    ) x
    order by x.eligible_at, x.id
    limit 2 * $2::int
  ) c
  where l.priority is not null
  limit 2 * $2::int
), walked as materialized (
  select distinct w.partition_key from walk w
), visit as (
  select $11::text as partition_key, false as wrapped, 0 as n
  where (select count(*) from walk) = 2 * $2::int and (select count(*) from walked) < $2::int
  union all
  select coalesce(next.partition_key, ''), v.wrapped or next.partition_key is null, v.n + 1
  from visit v
  cross join lateral (
    select min(x.partition_key) as partition_key
    from machine m
    cross join lateral (
      select g.partition_key
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key > ''
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.partition_key > v.partition_key
      order by g.partition_key
      limit 1
    ) x
  ) next
  where v.n < 2 * $2::int and not (v.wrapped and (next.partition_key is null or v.partition_key >= $11::text))
), visited as materialized (
  select v.partition_key, v.n from visit v where v.n > 0
), head as materialized (
  select h.id, h.tuple, h.priority, h.eligible_at
  from (select w.partition_key from walked w union select v.partition_key from visited v) k
  cross join lateral (
    with recursive level as (
      select (
        select g.priority
        from :"schema".gen_durable g
        where g.partition_key = k.partition_key and g.status in ('runnable', 'executing')
          and g.status = (select cast('runnable' as :"schema".durable_status))
        order by g.priority
        limit 1
      ) as priority
      union all
      select (
        select g.priority
        from :"schema".gen_durable g
        where g.partition_key = k.partition_key and g.status in ('runnable', 'executing')
          and g.status = (select cast('runnable' as :"schema".durable_status)) and g.priority > l.priority
        order by g.priority
        limit 1
      )
      from level l
      where l.priority is not null
    )
    select f.*
    from level l
    cross join lateral (
      select g.id, g.ctid as tuple, g.priority, g.eligible_at, g.queue, g.fsm, g.fsm_version
      from :"schema".gen_durable g
      where g.partition_key = k.partition_key and g.status in ('runnable', 'executing')
        and g.status = (select cast('runnable' as :"schema".durable_status)) and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 1
    ) f
    limit 1
  ) h
  where k.partition_key not in (select unnest($10::text[]))
    and h.queue = $1::text and (h.fsm, h.fsm_version) in (select m.fsm, m.version from machine m)
    and (select o.id from :"schema".gen_durable o
         where o.partition_key = k.partition_key and o.status in ('runnable', 'executing')
           and o.status = (select cast('executing' as :"schema".durable_status))
         limit 1) is null
), candidate as materialized (
  select c.tuple
  from (select * from free union all select * from head) c
  order by c.priority, c.eligible_at, c.id
  limit 2 * $2::int
), claimed as materialized (
  select g.ctid as tuple
  from :"schema".gen_durable g
  where g.ctid = any(array(select c.tuple from candidate c))
    and g.status = 'runnable' and g.eligible_at <= statement_timestamp()
  order by g.priority, g.eligible_at, g.id
  limit $2::int
  for no key update skip locked
),
-- include parts/pick_rows.sql
union all
select null, null, null, null, null, (select count(l.priority)::int from (select * from keyed_level limit 1) l),
  set_config('gd.keyed', coalesce((select array_agg(p.id) from picked p where p.partition_key is not null), '{}')::text, true),
  null, null, null, coalesce((select v.partition_key from visited v order by v.n desc limit 1), $11::text), null, null,
  statement_timestamp()
