-- Where suspects are, with a partition key or without: from one queue, machine and version to the next. A part of a "with recursive".
suspect as (
  (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.crashes >= 2 and not g.executes
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1
  )
  union all
  select g.*
  from suspect p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place
    from :"schema".gen_durable_due g
    where g.crashes >= 2 and not g.executes
      and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) < p.place
    order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) desc
    limit 1) g
)
