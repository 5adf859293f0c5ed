-- Of signal and signal_named: behind what the signals are.
    as e (target_id, name, payload, dedup_key, traceparent, n)
  left join lateral (
    select g.status, g.awaits, g.awaits_also, left(g.queue, 1025) as queue
    from :"schema".gen_durable g
    where g.id = e.target_id
    offset 0) g on true
-- How many are in the inbox, and, where the group may not fit, which of its signals are new.
), counted as materialized (
  select e.*, i.unread,
    case when i.unread + e.of_target <= $4::int then true
         else e.dedup_key is null
           or row_number() over (partition by e.target_id, e.dedup_key order by e.n) = 1 and (
             select true from :"schema".gen_durable_signals s
             where s.target_id = e.target_id and s.dedup_key = e.dedup_key limit 1) is null end as fresh
  from entry e
  cross join lateral (
    select count(*) as unread
    from (
      select from :"schema".gen_durable_signals s
      where s.target_id = e.target_id and s.consumed_at is null
      limit $4::int) inbox) i
  where e.locked and e.status not in ('done', 'failed')
-- Those that are not new take no room, and a repetition within the group finds what became of the first.
), weighed as materialized (
  select c.id, c.target_id, c.n, c.name, c.payload, c.dedup_key, c.traceparent,
    bool_or(c.over) over (partition by c.target_id, c.dedup_key, case when c.dedup_key is null then c.n end) as full
  from (
    select c.*, c.fresh
      and c.unread + count(*) filter (where c.fresh) over (partition by c.target_id order by c.n) > $4::int as over
    from counted c) c
), accepted as (
  insert into :"schema".gen_durable_signals (id, target_id, name, payload, dedup_key, traceparent)
  overriding system value
  select w.id, w.target_id, w.name, w.payload::jsonb, w.dedup_key, w.traceparent
  from weighed w
  where not w.full
  order by w.target_id, w.n
  on conflict (target_id, dedup_key) do nothing
  returning id
), applied as (
  update :"schema".gen_durable g
  set
-- include parts/wake.sql
    wake_reason = 'signal'
  where g.id = any(array(
      select e.target_id from entry e
      where (e.name = e.awaits or e.name = any(e.awaits_also)) and (e.id in (select id from accepted)) is true))
    and g.status = 'awaiting_signal'
    and not (g.wake_reason is not null and -- it is owed already: the first reason stays
-- include parts/owed.sql
    )
  returning
-- include parts/due_row.sql
    , g.fsm_version
),
-- include parts/listed.sql
select
  case when e.status is null then 'no_such_target'
       when not e.locked then 'locked'
       when e.id in (select id from accepted) then 'accepted'
       when e.dedup_key is not null and (
         select true from :"schema".gen_durable_signals s
         where s.target_id = e.target_id and s.dedup_key = e.dedup_key limit 1) then 'duplicate'
       when e.status in ('done', 'failed') then 'target_finished'
       when e.dedup_key is not null and e.id not in (select w.id from weighed w where w.full) then 'duplicate'
       else 'inbox_full' end as answer,
  case when e.target_id in (select id from applied) then e.queue end as woken_queue,
  case when e.status = 'runnable' then e.queue end as runnable_queue
from entry e
order by e.n
