-- The queues that nodes which live serve, that are paused, or that have something that is runnable or executes. Jumps from one
-- machine, version and priority to the next in the indexes of picks. Times in us since 1970. Names that are longer than any of ours
-- are cut.
-- $1 int pages of the table at which it looks for what awaits signals: no index has that by queue
-- A row for each: its name; how many nodes that live serve it, with how many slots; how many instances are due, and how many are
-- runnable later, of each of which at most 10,000 are counted; how many execute, of which at most 10,000 are counted of all queues;
-- how many await signals, and whether that is an estimate; since when the first of the due ones is; whether it is paused, since when,
-- by whom and why.
with recursive serving as materialized (
  select q ->> 'name' as queue, count(*) as nodes, sum((q ->> 'slots')::numeric) as slots
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.queues, '$[*] ? (@.slots.type() == "number")') q
  where
-- include parts/lives.sql
  group by q ->> 'name'
),
-- include parts/pick_ranges.sql
, first as materialized (
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
), executing as materialized (
  select e.queue, count(*) as executing
  from (
    select g.queue
    from :"schema".gen_durable g
    where g.status = 'executing'
    order by g.lease_expires_at
    limit 10000) e
  group by e.queue
), share as materialized (
  select
-- include parts/sampled_share.sql
  as share
), awaiting as materialized (
  select g.queue, count(*) as seen
  from :"schema".gen_durable g tablesample system (
-- include parts/sampled_share.sql
  )
  where g.status = 'awaiting_signal'
  group by g.queue
), queue as materialized (
  select r.queue from ranges r union select s.queue from serving s union select e.queue from executing e
  union select p.queue from :"schema".gen_durable_queues p where p.paused_at is not null
)
select left(q.queue, 1025) as queue, coalesce(s.nodes, 0) as nodes, least(coalesce(s.slots, 0), 2147483647)::bigint as slots, d.due,
  l.later, coalesce(e.executing, 0) as executing, coalesce(round(100 * a.seen / h.share), 0)::bigint as awaiting,
  h.share < 100 as awaiting_estimated,
  (select :"schema".gd_us(min(f.eligible_at)) from first f where f.queue = q.queue) as oldest_due_us,
  p.paused_at is not null as paused, (extract(epoch from p.paused_at) * 1000000)::bigint as paused_at_us,
  left(p.paused_by, 1025) as paused_by, left(p.reason, 8192) as reason
from queue q
cross join share h
left join serving s on s.queue = q.queue
left join executing e on e.queue = q.queue
left join awaiting a on a.queue = q.queue
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
cross join lateral (
  select count(*) as later
  from (
    select
    from ranges r
    cross join lateral (
      (
        select
        from :"schema".gen_durable g
        where g.status = 'runnable' and (g.partition_key is null) is true and g.crashes < 2 and not r.is_keyed
          and g.queue = r.queue and g.fsm = r.fsm and g.fsm_version = r.fsm_version and g.priority = r.priority
          and g.eligible_at > statement_timestamp()
        order by g.eligible_at, g.id
        limit 10000
      )
      union all
      (
        select
        from :"schema".gen_durable g
        where g.status = 'runnable' and g.partition_key is not null and r.is_keyed
          and g.queue = r.queue and g.fsm = r.fsm and g.fsm_version = r.fsm_version and g.priority = r.priority
          and g.eligible_at > statement_timestamp()
        order by g.eligible_at, g.id
        limit 10000
      )) c
    where r.queue = q.queue
    limit 10000) c) l
order by q.queue
