-- How many instances stand at each step of each machine, by status, without reading the whole table: of what is runnable so many of
-- each version (versions share what ten may have), and the first so many that execute or have failed, are counted in their indexes;
-- for the rest, and for what awaits or is done, a sample of the table's pages stands, which is all of a small table. Names that are
-- longer than any of ours count by their beginnings.
-- $1 int pages of the sample; $2 text fsm, $3 int version; fsm empty: all; $4 int how many are counted (a constant would be planned
-- with another path while the table is small)
-- A row for each: fsm, version, step, status, instances, whether that is an estimate. Another one without an fsm: whether what has no
-- row may yet have instances.
with recursive
-- include parts/pick_ranges.sql
, suspects as materialized (
  select g.id, g.fsm, g.fsm_version, g.partition_key
  from :"schema".gen_durable_due g
  where g.crashes >= 2 and not g.executes
  order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)), g.priority, g.eligible_at, g.id
  limit $4::int
), versions as materialized (
  select distinct r.fsm, r.fsm_version
  from ranges r
  where $2::text = '' or (r.fsm = $2::text and r.fsm_version = $3::int)
), bound as materialized (
  select least($4::int, greatest(10 * $4::int / greatest(count(*), 1), 1)) as rows from versions
), found as (
  select v.fsm, v.fsm_version, i.step, 'runnable' as status
  from versions v
  cross join lateral (
    select c.id
    from ranges r
    cross join lateral (
      (
        select g.id
-- include parts/range_free.sql
        order by g.eligible_at desc, g.id desc
        limit (select rows from bound)
      )
      union all
      (
        select g.id
-- include parts/range_keyed.sql
        order by g.eligible_at desc, g.id desc
        limit (select rows from bound)
      )) c
    where r.fsm = v.fsm and r.fsm_version = v.fsm_version
    limit (select rows from bound)) g
  cross join lateral (select i.step from :"schema".gen_durable i where i.id = g.id offset 0) i
  union all
  select s.fsm, s.fsm_version, i.step, 'runnable'
  from suspects s
  cross join lateral (select i.step from :"schema".gen_durable i where i.id = s.id offset 0) i
  where s.partition_key is null
  union all
  (
    select g.fsm, g.fsm_version, g.step, 'executing'
    from
-- include parts/executing.sql
    limit $4::int
  )
  union all
  (
    select g.fsm, g.fsm_version, g.step, 'failed'
    from :"schema".gen_durable g
    where g.failed_id is not null
    order by g.failed_id
    limit $4::int
  )
), grouped as (
  select f.fsm, f.fsm_version, f.step, f.status, count(*) as instances,
    case when f.status <> 'runnable' then sum(count(*)) over (partition by f.status) < $4::int
         else sum(count(*)) over (partition by f.status, f.fsm, f.fsm_version) < (select rows from bound)
              and (select count(*) from suspects) < $4::int and (select count(*) from ranges) < 1000 end as all_of_them
  from found f
  group by f.fsm, f.fsm_version, f.step, f.status
), size as materialized (
  select pg_relation_size(format('%I.gen_durable', :'schema')::regclass) / current_setting('block_size')::bigint as pages
), sampled as (
  select g.fsm, g.fsm_version, g.step, g.status::text as status, count(*) as seen
  from size s
  -- One of each part of the table, by its number: "tablesample system" asks of each page whether it is one of them.
  cross join lateral (
    select part.first + floor(random() * (part.next - part.first))::bigint as page
    from generate_series(0, least($1::int, s.pages) - 1) i
    cross join lateral (
      select i * s.pages / least($1::int, s.pages) as first, (i + 1) * s.pages / least($1::int, s.pages) as next) part
    offset 0) p
  cross join lateral (
    select g.fsm, g.fsm_version, g.step, g.status
    from :"schema".gen_durable g
    where g.ctid >= format('(%s,0)', p.page)::tid and g.ctid < format('(%s,0)', p.page + 1)::tid
    offset 0) g
  group by g.fsm, g.fsm_version, g.step, g.status
), share as materialized (
  select least(100, 100.0 * $1::int / greatest(1, s.pages))::float8 as share from size s
), counted as (
  select fsm, fsm_version, step, status, h.share < 100 and g.all_of_them is not true as estimated,
    case when h.share >= 100 then s.seen
         when g.all_of_them then g.instances
         else greatest(round(100 * s.seen / h.share)::bigint, g.instances) end as instances
  from grouped g
  full join sampled s using (fsm, fsm_version, step, status)
  cross join share h
  where $2::text = '' or (fsm = $2::text and fsm_version = $3::int)
)
select left(c.fsm, 1025) as fsm, c.fsm_version as version, left(c.step, 1025) as step, c.status, c.instances::bigint as instances,
  c.estimated
from counted c
where c.instances > 0
union all
select '', 0, '', '', 0, h.share < 100 from share h
