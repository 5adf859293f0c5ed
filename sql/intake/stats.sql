-- How many instances of each machine are in each status, by queue; of those, how many are runnable later than now, and
-- how many wait for another row of their partition key; whether a node that lives runs their steps. Reads the whole table:
-- for people, not for loops. Names that are longer than any of ours count by their beginnings.
with keyed as (
  select g.id,
    bool_or(g.status = 'executing') over (partition by g.partition_key) as executing,
    row_number() over (partition by g.partition_key, g.status = 'runnable' and g.eligible_at <= statement_timestamp()
                       order by g.priority, g.eligible_at, g.id) as nth
  from :"schema".gen_durable g
  where g.partition_key is not null and g.status in ('runnable', 'executing')
), serves as materialized (
-- include parts/serves.sql
)
select g.queue, g.fsm, g.fsm_version as version, g.status::text as status, count(*) as instances,
  count(*) filter (where g.status = 'runnable' and g.eligible_at > statement_timestamp()) as future,
  count(*) filter (where g.status = 'runnable' and g.eligible_at <= statement_timestamp()
                     and (k.executing or k.nth > 1)) as held_back,
  ((g.queue, g.fsm, g.fsm_version::text) in (select s.queue, s.fsm, s.version from serves s)) is true as served
from (
  select g.id, left(g.queue, 1025) as queue, left(g.fsm, 1025) as fsm, g.fsm_version, g.status, g.eligible_at
  from :"schema".gen_durable g) g
left join keyed k on k.id = g.id
group by g.queue, g.fsm, g.fsm_version, g.status
order by g.queue, g.fsm, g.fsm_version, g.status
