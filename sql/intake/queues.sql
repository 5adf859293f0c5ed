-- The queues that nodes which live serve, that are paused, or that have something due. Jumps from one machine, version and priority
-- to the next in the indexes of picks. Times in us since 1970. Names that are longer than any of ours are cut.
-- A row for each: its name; how many nodes that live serve it, with how many slots; how many instances are due, of which at most
-- 10,000 are counted; since when the first of them is; whether it is paused, since when, by whom and why.
with recursive serving as materialized (
  select q ->> 'name' as queue, count(*) as nodes, sum((q ->> 'slots')::numeric) as slots
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.queues, '$[*] ? (@.slots.type() == "number")') q
  where
-- include parts/lives.sql
  group by q ->> 'name'
), free as (
  (
    select g.queue, g.fsm, g.fsm_version, g.priority
    from :"schema".gen_durable g
    where g.status = 'runnable' and (g.partition_key is null) is true and g.crashes < 2
    order by g.queue, g.fsm, g.fsm_version, g.priority
    limit 1
  )
  union all
  select g.*
  from free p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, g.priority
    from :"schema".gen_durable g
    where g.status = 'runnable' and (g.partition_key is null) is true and g.crashes < 2
      and (g.queue, g.fsm, g.fsm_version, g.priority) > (p.queue, p.fsm, p.fsm_version, p.priority)
    order by g.queue, g.fsm, g.fsm_version, g.priority
    limit 1) g
), keyed as (
  (
    select g.queue, g.fsm, g.fsm_version, g.priority
    from :"schema".gen_durable g
    where g.status = 'runnable' and g.partition_key is not null
    order by g.queue, g.fsm, g.fsm_version, g.priority
    limit 1
  )
  union all
  select g.*
  from keyed p
  cross join lateral (
    select g.queue, g.fsm, g.fsm_version, g.priority
    from :"schema".gen_durable g
    where g.status = 'runnable' and g.partition_key is not null
      and (g.queue, g.fsm, g.fsm_version, g.priority) > (p.queue, p.fsm, p.fsm_version, p.priority)
    order by g.queue, g.fsm, g.fsm_version, g.priority
    limit 1) g
), ranges as materialized (
  (select f.*, false as is_keyed from free f limit 1000)
  union all
  (select k.*, true from keyed k limit 1000)
), first as materialized (
  select r.*, f.eligible_at
  from ranges r
  cross join lateral (
    (
      select g.eligible_at
      from :"schema".gen_durable g
      where g.status = 'runnable' and (g.partition_key is null) is true and g.crashes < 2 and not r.is_keyed
        and g.queue = r.queue and g.fsm = r.fsm and g.fsm_version = r.fsm_version and g.priority = r.priority
      order by g.eligible_at, g.id
      limit 1
    )
    union all
    (
      select g.eligible_at
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null and r.is_keyed
        and g.queue = r.queue and g.fsm = r.fsm and g.fsm_version = r.fsm_version and g.priority = r.priority
      order by g.eligible_at, g.id
      limit 1
    )) f
  where f.eligible_at <= statement_timestamp()
), queue as materialized (
  select f.queue from first f union select s.queue from serving s
  union select p.queue from :"schema".gen_durable_queues p where p.paused_at is not null
)
select left(q.queue, 1025) as queue, coalesce(s.nodes, 0) as nodes, least(coalesce(s.slots, 0), 2147483647)::bigint as slots, d.due,
  (select (extract(epoch from min(f.eligible_at)) * 1000000)::bigint from first f where f.queue = q.queue) as oldest_due_us,
  p.paused_at is not null as paused, (extract(epoch from p.paused_at) * 1000000)::bigint as paused_at_us,
  left(p.paused_by, 1025) as paused_by, left(p.reason, 8192) as reason
from queue q
left join serving s on s.queue = q.queue
left join :"schema".gen_durable_queues p on p.queue = q.queue and p.paused_at is not null
cross join lateral (
  select count(*) as due
  from (
    select
    from first f
    cross join lateral (
      (
        select
        from :"schema".gen_durable g
        where g.status = 'runnable' and (g.partition_key is null) is true and g.crashes < 2 and not f.is_keyed
          and g.queue = f.queue and g.fsm = f.fsm and g.fsm_version = f.fsm_version and g.priority = f.priority
          and g.eligible_at <= statement_timestamp()
        order by g.eligible_at, g.id
        limit 10000
      )
      union all
      (
        select
        from :"schema".gen_durable g
        where g.status = 'runnable' and g.partition_key is not null and f.is_keyed
          and g.queue = f.queue and g.fsm = f.fsm and g.fsm_version = f.fsm_version and g.priority = f.priority
          and g.eligible_at <= statement_timestamp()
        order by g.eligible_at, g.id
        limit 10000
      )) c
    where f.queue = q.queue
    limit 10000) c) d
order by q.queue
