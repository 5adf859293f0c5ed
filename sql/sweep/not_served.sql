-- What is runnable, and no node that lives runs it; and where inserts go that nobody looks at. Jumps from one machine, version
-- and queue to the next in the indexes of picks: what they hold of each does not matter. From the last on, as pick_ranges.
-- $1 int limit of rows. A row for each: queue, fsm, version; whether a node that lives serves that version, elsewhere.
with recursive serves as materialized (
-- include parts/serves.sql
), free as (
  (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where (g.partition_key is null) is true and g.crashes < 2
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1
  )
  union all
  select g.*
  from free p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where (g.partition_key is null) is true and g.crashes < 2
      and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) < p.place
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1) g
), keyed as (
  (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.partition_key is not null and not g.executes
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1
  )
  union all
  select g.*
  from keyed p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.partition_key is not null and not g.executes
      and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) < p.place
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1) g
),
-- include parts/suspect_places.sql
, wanted as (
  (select k.queue, k.fsm, k.fsm_version from free k limit 1000)
  union
  (select k.queue, k.fsm, k.fsm_version from keyed k limit 1000)
  union
  (select k.queue, k.fsm, k.fsm_version from suspect k limit 1000)
  union
  select m.queue, m.fsm, m.version
  from :"schema".gen_durable_machines m
  where m.served
)
select left(w.queue, 1025) as queue, left(w.fsm, 1025) as fsm, w.fsm_version as version, o.fsm is not null as version_served
from wanted w left join serves s on s.queue = w.queue and s.fsm = w.fsm and s.version = w.fsm_version::text
left join (select distinct e.fsm, e.version from serves e) o on o.fsm = w.fsm and o.version = w.fsm_version::text
where s.queue is null
order by w.queue, w.fsm, w.fsm_version
limit $1::int
