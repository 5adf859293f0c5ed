-- How many instances are in each status, for metrics: without reading the whole table. What has an index of its own (runnable,
-- executing, failed) is counted there, up to a bound. What has none is counted in a table of 8 MiB at the most. Beyond that it is
-- what the last analysis of the table has found, by its size of now. The bound at the least if so many were counted.
-- Counted is from the end: in front stands what has just been picked, and is still in the index.
-- $1 int: the bound; 10,000 at the least of what is counted in the table.
-- A row for each status: its name; how many; whether that is an estimate; the time, in us since 1970.
with size as materialized (
  select s.pages <= 1024 as small,
    case when c.reltuples > 0 and c.relpages > 0 then c.reltuples::float8 / c.relpages * s.pages else 0 end as rows
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  cross join lateral (
    select pg_relation_size(c.oid) / current_setting('block_size')::bigint as pages offset 0) s
  where n.nspname = :'schema' and c.relname = 'gen_durable'
), share as materialized (
  select v.status, v.share
  from pg_catalog.pg_stats s
  cross join lateral unnest(s.most_common_vals::text::text[], s.most_common_freqs) v (status, share)
  where s.schemaname = :'schema' and s.tablename = 'gen_durable' and s.attname = 'status' and not s.inherited
), counted (status, rows, whole, most) as materialized (
  select 'runnable', count(*), true, $1::int
  from (
    (select from :"schema".gen_durable_due g
     where (g.partition_key is null) is true and g.crashes < 2
     order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc, g.eligible_at desc, g.id desc
     limit $1::int)
    union all
    (select from :"schema".gen_durable_due g where g.partition_key is not null and not g.executes
     order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc, g.eligible_at desc, g.id desc
     limit $1::int)
    union all
    (select from :"schema".gen_durable_due g
     where g.crashes >= 2 and not g.executes and g.partition_key is null
     limit $1::int)
    limit $1::int) r
  union all
  select 'executing', count(*), true, $1::int
  from (
    select
    from
-- include parts/executing.sql
    limit $1::int) r
  union all
  select 'failed', count(*), true, $1::int
  from (select from :"schema".gen_durable g where g.failed_id is not null limit $1::int) r
  union all
  select p.status::text, count(r.there), (select s.small from size s), greatest($1::int, 10000)
  from unnest('{awaiting_signal,done}'::text[]) p (status)
  left join lateral (
    select true as there
    from :"schema".gen_durable g
    where g.status::text = p.status and (select s.small from size s)
    limit greatest($1::int, 10000)) r on true
  group by p.status
)
select c.status, case when x.estimated then greatest(c.rows, coalesce(round(s.rows * h.share), 0)::bigint) else c.rows end as instances,
  x.estimated, (extract(epoch from statement_timestamp()) * 1000000)::bigint as now_us
from counted c
left join share h on h.status = c.status
left join size s on true
cross join lateral (select (c.whole and c.rows < c.most) is not true as estimated offset 0) x
order by c.status
