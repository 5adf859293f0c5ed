-- What is runnable by queue, machine, version and priority: from one of these to the next in the indexes of picks. Suspects without
-- a partition key are not among them. From the last to the first: at the beginning of each stands what has been picked a moment ago,
-- and has left its entries behind. At most 1,000 without a key, and as many with one (is_keyed). A part of a "with recursive".
free as (
  (
    select g.queue, g.fsm, g.fsm_version, g.priority, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where (g.partition_key is null) is true and g.crashes < 2
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc
    limit 1
  )
  union all
  select g.*
  from free p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, g.priority, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where (g.partition_key is null) is true and g.crashes < 2
      and (hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)), g.priority) < (p.place, p.priority)
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc
    limit 1) g
), keyed as (
  (
    select g.queue, g.fsm, g.fsm_version, g.priority, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.partition_key is not null and not g.executes
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc
    limit 1
  )
  union all
  select g.*
  from keyed p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, g.priority, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.partition_key is not null and not g.executes
      and (hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)), g.priority) < (p.place, p.priority)
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc, g.priority desc
    limit 1) g
), ranges as materialized (
  (select f.*, false as is_keyed from free f limit 1000)
  union all
  (select k.*, true from keyed k limit 1000)
)
