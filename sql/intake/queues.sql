-- The queues that nodes which live serve, that are paused, or that have something that is runnable or executes. Jumps from one
-- machine, version and priority to the next in the indexes of picks. Times in us since 1970. Names that are longer than any of ours
-- are cut. What is due is counted from its end: in front stands what has just been picked, and is still in the index.
-- $1 int how many instances are counted at the most: of what is due, of what is runnable later, of what executes; all queues share
-- these; $2 text fronts, in JSON, as an earlier look has told them, or []: the first of what is due is looked for from there on, and
-- not from the beginning, where as many entries may stand as were worked off since the last vacuum. What has come back in front of
-- that, or was inserted by who commits late, is told as the first only where nothing else of its machine, version and priority is due.
-- A row for each: its name; how many nodes that live serve it, with how many slots; how many instances are due, whether there may be
-- more, and the same for what is runnable later, and for what executes, of which $1 are counted of all queues; since when the first
-- of the due ones is; whether it is paused, since when, by whom and why. Behind them one without a name: fronts.
with recursive serving as materialized (
  select q ->> 'name' as queue, count(*) as nodes, sum((q ->> 'slots')::numeric) as slots
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.queues, '$[*] ? (@.slots.type() == "number")') q
  where
-- include parts/lives.sql
  group by q ->> 'name'
),
-- include parts/pick_ranges.sql
, front as materialized (
  select m.*
  from jsonb_to_recordset($2::text::jsonb) m (queue text, fsm text, fsm_version int, priority int, is_keyed boolean, since timestamptz, id bigint)
), first as materialized (
  select r.*, f.eligible_at, f.id
  from (
    select r.*, coalesce(m.since, '-infinity') as since, coalesce(m.id, 0) as since_id
    from ranges r
    left join front m using (queue, fsm, fsm_version, priority, is_keyed)) r
  cross join lateral (
    (
      select g.eligible_at, g.id
-- include parts/range_free.sql
        and (g.eligible_at, g.id) >= (r.since, r.since_id) and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 1
    )
    union all
    (
      select g.eligible_at, g.id
-- include parts/range_keyed.sql
        and (g.eligible_at, g.id) >= (r.since, r.since_id) and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 1
    )
    union all
    (
      select g.eligible_at, g.id
-- include parts/range_free.sql
        and (g.eligible_at, g.id) < (r.since, r.since_id)
      order by g.eligible_at, g.id
      limit 1
    )
    union all
    (
      select g.eligible_at, g.id
-- include parts/range_keyed.sql
        and (g.eligible_at, g.id) < (r.since, r.since_id)
      order by g.eligible_at, g.id
      limit 1
    )
    limit 1) f
), executing as materialized (
  select e.queue, count(*) as executing, sum(count(*)) over () >= $1::int as more
  from (
    select g.queue
    from
-- include parts/executing.sql
    limit $1::int) e
  group by e.queue
), queue as materialized (
  select r.queue from ranges r union select s.queue from serving s union select e.queue from executing e
  union select p.queue from :"schema".gen_durable_queues p where p.paused_at is not null
), bound as materialized (
  select greatest($1::int / greatest(count(*), 1), 1) as rows from queue
)
(select left(q.queue, 1025) as queue, coalesce(s.nodes, 0) as nodes, greatest(least(coalesce(s.slots, 0), 2147483647), 0)::bigint as slots,
  d.due, d.due >= b.rows as more_due, l.later, l.later >= b.rows as more_later, coalesce(e.executing, 0) as executing,
  coalesce((select x.more from executing x limit 1), false) as more_executing,
  (select :"schema"._gd_us(min(f.eligible_at)) from first f where f.queue = q.queue) as oldest_due_us,
  p.paused_at is not null as paused, :"schema"._gd_us(p.paused_at) as paused_at_us,
  left(p.paused_by, 1025) as paused_by, left(p.reason, 8192) as reason, null::text as fronts
from queue q
cross join bound b
left join serving s on s.queue = q.queue
left join executing e on e.queue = q.queue
left join :"schema".gen_durable_queues p on p.queue = q.queue and p.paused_at is not null
cross join lateral (
  select count(*) as due
  from (
    select
    from first r
    cross join lateral (
      (
        select
-- include parts/range_free.sql
          and g.eligible_at <= statement_timestamp()
        order by g.eligible_at desc, g.id desc
        limit (select rows from bound)
      )
      union all
      (
        select
-- include parts/range_keyed.sql
          and g.eligible_at <= statement_timestamp()
        order by g.eligible_at desc, g.id desc
        limit (select rows from bound)
      )) c
    where r.queue = q.queue
    limit (select rows from bound)) c) d
cross join lateral (
  select count(*) as later
  from (
    select
    from ranges r
    cross join lateral (
      (
        select
-- include parts/range_free.sql
          and g.eligible_at > statement_timestamp()
        order by g.eligible_at, g.id
        limit (select rows from bound)
      )
      union all
      (
        select
-- include parts/range_keyed.sql
          and g.eligible_at > statement_timestamp()
        order by g.eligible_at, g.id
        limit (select rows from bound)
      )) c
    where r.queue = q.queue
    limit (select rows from bound)) c) l
order by q.queue)
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  coalesce(jsonb_agg(jsonb_build_object('queue', f.queue, 'fsm', f.fsm, 'fsm_version', f.fsm_version, 'priority', f.priority,
    'is_keyed', f.is_keyed, 'since', f.eligible_at, 'id', f.id)), '[]')::text
from first f
where octet_length(f.queue) <= 1024 and octet_length(f.fsm) <= 1024
