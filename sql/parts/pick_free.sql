-- Of those that pick, which say what the parameters are: the rows without partition key that come first, suspects apart.
-- What is said of a partition key is said as in gen_durable_due_free.
machine as materialized (
  select m.fsm, m.version from unnest($6::text[], $7::int[]) as m (fsm, version)
), stretch as materialized (
  select s.priority, lead(s.priority, 1, 32768) over (order by s.priority) as until, s.id,
    case when s.since_us2000 < 0 then '-infinity' else timestamptz '2000-01-01 00:00Z'
      + s.since_us2000 / 1000000 * interval '1 second' + s.since_us2000 % 1000000 * interval '1 microsecond' end as since
  from unnest($8::int[], $9::bigint[], $10::bigint[]) as s (priority, since_us2000, id)
-- The machines that have such rows in the queue, and where those begin: in front of that, the index may hold as many
-- entries of rows that have gone as were worked off since the last vacuum, and they are passed over once, not twice.
), present as materialized (
  select m.fsm, m.version, x.priority, x.eligible_at, x.id
  from machine m
  cross join lateral (
    select x.*
    from (select * from stretch order by priority) s
    cross join lateral (
      select g.priority, g.eligible_at, g.id
      from :"schema".gen_durable_due g
      where (g.partition_key is null) is true and g.crashes < 2
        and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(m.fsm, m.version))
        and g.queue = $4::text and g.fsm = m.fsm and g.fsm_version = m.version
        and (g.priority, g.eligible_at, g.id) >= (s.priority, s.since, s.id) and g.priority < s.until
      order by g.priority, g.eligible_at, g.id
      limit 1
    ) x
    limit 1
  ) x
), level as (
  select x.priority, (select s.since from stretch s where s.priority = x.priority) as since,
    (select s.id from stretch s where s.priority = x.priority) as id
  from (select min(p.priority) as priority from present p) x
  union all
  select x.priority, (select s.since from stretch s where s.priority = x.priority),
    (select s.id from stretch s where s.priority = x.priority)
  from level l
  cross join lateral (
    select min(x.priority) as priority
    from present p
    cross join lateral (
      select x.priority
      from (select * from stretch order by priority) s
      cross join lateral (
        select g.priority
        from :"schema".gen_durable_due g
        where (g.partition_key is null) is true and g.crashes < 2
          and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended($4::text, hashtextextended(p.fsm, p.version))
          and g.queue = $4::text and g.fsm = p.fsm and g.fsm_version = p.version
          and (g.priority, g.eligible_at) >= (greatest(s.priority, l.priority + 1),
                                              case when s.priority > l.priority then s.since else '-infinity' end)
          and g.priority < s.until
        order by g.priority
        limit 1
      ) x
      where s.until > l.priority + 1
      limit 1
    ) x
  ) x
  where l.priority is not null
), free as materialized (
  select c.id, l.priority, c.eligible_at, c.fsm, c.version
  from level l
  cross join lateral (
    select x.id, x.eligible_at, p.fsm, p.version
    from present p
-- include parts/range_of.sql
    cross join lateral (
      select g.id, g.eligible_at
      from :"schema".gen_durable_due g
-- include parts/range.sql
      order by g.eligible_at, g.id
      limit $11::int
    ) x
    order by x.eligible_at, x.id
    limit $11::int
  ) c
  where l.priority is not null
  limit $11::int
),
