-- Takes a lease on the most urgent eligible rows of a queue, and returns them with their inbox, in pick order.
-- It reads as much as it takes, whatever lies in the table (spec [A5]): the rows of each machine that this node knows are
-- a range of their own, and of that each priority, so that neither foreign rows nor future ones are ever passed over.
-- The recursive parts find the priorities in use, each by one probe; the outer limit ends them as soon as it has enough.
-- Twice the limit is looked at: as many again may be locked by another node's pick.
-- What is claimed is found again by its place (ctid); a row that a stranger has moved since the snapshot is left for the
-- next pick. The claim is "for no key update": "for update" would skip rows that a signal's foreign key check locks.
-- Of each partition key only the first eligible row counts, and only if no row of the key executes (spec [A9]). Keys are
-- found by walking the keyed rows in pick order. If a backlog of a few keys fills that walk, as many distinct keys are
-- visited from where the last visit ended: keys then take turns, and only among keys is the order no longer exact.
-- $1 text queue, $2 int limit, $3 text[] fsm, $4 int[] version of the machines that this node knows, $5 text lease token,
-- $6 bigint lease in us, $7 int signals of an inbox at the most; of those, the oldest 8 MiB and one more: a pick that
-- cannot be answered would stop the whole queue. What a step has not been shown wakes it when it parks.
-- $8 bool whether to take keyed rows (then lock_keys, check_keys and hold_keys follow), $9 text[] keys to leave alone,
-- $10 text the key that the last visit ended with.
-- The last row has no id: its partition_key is the key that this visit ended with; its attempt is not 0 if there are keyed
-- rows. Ids of picked rows with a key are handed on inside the transaction as gd.keyed.
with recursive machine as materialized (
  select m.fsm, m.version from unnest($3::text[], $4::int[]) as m (fsm, version)
), level as (
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version
      order by g.priority
      limit 1
    ) x
  ) as priority
  union all
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority > l.priority
      order by g.priority
      limit 1
    ) x
  )
  from level l
  where l.priority is not null
), free as materialized (
  select c.id, c.tuple, l.priority, c.eligible_at
  from level l
  cross join lateral (
    select x.id, x.tuple, x.eligible_at
    from machine m
    cross join lateral (
      select g.id, g.ctid as tuple, g.eligible_at
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 2 * $2::int
    ) x
    order by x.eligible_at, x.id
    limit 2 * $2::int
  ) c
  where l.priority is not null
  limit 2 * $2::int
), keyed_level as (
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version
      order by g.priority
      limit 1
    ) x
  ) as priority
  union all
  select (
    select min(x.priority)
    from machine m
    cross join lateral (
      select g.priority
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority > l.priority
      order by g.priority
      limit 1
    ) x
  )
  from keyed_level l
  where l.priority is not null
), walk as materialized (
  select c.partition_key
  from keyed_level l
  cross join lateral (
    select x.partition_key
    from machine m
    cross join lateral (
      select g.partition_key, g.eligible_at, g.id
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key is not null
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 2 * $2::int
    ) x
    order by x.eligible_at, x.id
    limit 2 * $2::int
  ) c
  where $8::bool and l.priority is not null
  limit 2 * $2::int
), walked as materialized (
  select distinct w.partition_key from walk w
), visit as (
  select $10::text as partition_key, false as wrapped, 0 as n
  where (select count(*) from walk) = 2 * $2::int and (select count(*) from walked) < $2::int
  union all
  select coalesce(next.partition_key, ''), v.wrapped or next.partition_key is null, v.n + 1
  from visit v
  cross join lateral (
    select min(x.partition_key) as partition_key
    from machine m
    cross join lateral (
      select g.partition_key
      from :"schema".gen_durable g
      where g.status = 'runnable' and g.partition_key > ''
        and g.queue = $1::text and g.fsm = m.fsm and g.fsm_version = m.version and g.partition_key > v.partition_key
      order by g.partition_key
      limit 1
    ) x
  ) next
  where v.n < 2 * $2::int and not (v.wrapped and (next.partition_key is null or v.partition_key >= $10::text))
), visited as materialized (
  select v.partition_key, v.n from visit v where v.n > 0
), head as materialized (
  select h.id, h.tuple, h.priority, h.eligible_at
  from (select w.partition_key from walked w union select v.partition_key from visited v) k
  cross join lateral (
    with recursive level as (
      select (
        select g.priority
        from :"schema".gen_durable g
        where g.partition_key = k.partition_key and g.status = 'runnable'
        order by g.priority
        limit 1
      ) as priority
      union all
      select (
        select g.priority
        from :"schema".gen_durable g
        where g.partition_key = k.partition_key and g.status = 'runnable' and g.priority > l.priority
        order by g.priority
        limit 1
      )
      from level l
      where l.priority is not null
    )
    select f.*
    from level l
    cross join lateral (
      select g.id, g.ctid as tuple, g.priority, g.eligible_at, g.queue, g.fsm, g.fsm_version
      from :"schema".gen_durable g
      where g.partition_key = k.partition_key and g.status = 'runnable' and g.priority = l.priority
        and g.eligible_at <= statement_timestamp()
      order by g.eligible_at, g.id
      limit 1
    ) f
    limit 1
  ) h
  where k.partition_key <> all($9::text[])
    and h.queue = $1::text and (h.fsm, h.fsm_version) in (select m.fsm, m.version from machine m)
    and (select o.id from :"schema".gen_durable o
         where o.partition_key = k.partition_key and o.status = 'executing'
         limit 1) is null
), candidate as materialized (
  select c.tuple
  from (select * from free union all select * from head) c
  order by c.priority, c.eligible_at, c.id
  limit 2 * $2::int
), claimed as materialized (
  select g.ctid as tuple
  from :"schema".gen_durable g
  where g.ctid = any(array(select c.tuple from candidate c))
    and g.status = 'runnable' and g.eligible_at <= statement_timestamp()
  order by g.priority, g.eligible_at, g.id
  limit $2::int
  for no key update skip locked
), picked as (
  update :"schema".gen_durable g
  set status = 'executing', locked_by = $5::text,
      lease_expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
      updated_at = clock_timestamp()
  where g.ctid = any(array(select c.tuple from claimed c))
  returning g.id, g.fsm, g.fsm_version, g.step, g.state, g.attempt, g.wake_reason, g.priority, g.eligible_at,
    g.partition_key, case when g.unique_key is not null then g.unique_scope::text[] end as unique_scope
), addressed as materialized (
  select distinct s.target_id
  from :"schema".signals s
  where s.target_id = any(array(select p.id from picked p)) and s.consumed_at is null
)
select p.id, p.fsm, p.fsm_version, p.step, p.state::text as state, p.attempt, p.wake_reason,
  null::bigint[] as ids, null::text[] as names, null::text[] as payloads, p.partition_key, p.unique_scope, p.priority,
  p.eligible_at
from picked p
where (p.id in (select a.target_id from addressed a)) is not true
union all
select p.id, p.fsm, p.fsm_version, p.step, p.state::text, p.attempt, p.wake_reason,
  inbox.ids, inbox.names, inbox.payloads, p.partition_key, p.unique_scope, p.priority, p.eligible_at
from picked p
cross join lateral (
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload::text) as payloads
  from (
    select s.id, s.name, s.payload,
      sum(octet_length(s.payload::text)) over (order by s.id rows between unbounded preceding and 1 preceding) as before
    from :"schema".signals s
    where s.target_id = p.id and s.consumed_at is null
    order by s.id
    limit $7::int
  ) s
  where s.before is null or s.before < 8388608
) inbox
where (p.id in (select a.target_id from addressed a)) is true
union all
select null, null, null, null, null, (select count(l.priority)::int from (select * from keyed_level limit 1) l),
  set_config('gd.keyed', coalesce((select array_agg(p.id) from picked p where p.partition_key is not null), '{}')::text, true),
  null, null, null, coalesce((select v.partition_key from visited v order by v.n desc limit 1), $10::text), null, null, null
order by priority, eligible_at, id
