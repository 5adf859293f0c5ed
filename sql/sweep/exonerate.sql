-- Takes these ends of processes off the suspects that are charged with them, a page of all suspects in the order of
-- gen_durable_due_suspects: another row has caused them. With less than two left they are none any more. Who has died in trials of its
-- own stays one. Behind the last page these ends are not looked for again; who is locked then stays charged until its next reap.
-- $1 bigint[] processes; $2 bigint place (see gen_durable_due), $3 int priority, $4 text when it is due and $5 bigint id of the
-- last suspect of the page before; $6 int limit
-- A row: the last suspect of this page; how many it had, as many as the limit: there may be more; and how many of these are
-- charged with less. No row: there was none.
with page as materialized (
  select g.ctid as due, g.id, hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) as place, g.priority, g.eligible_at,
    (select (i.trials = 0 and i.crashed_in && $1::bigint[]) is true from :"schema".gen_durable i where i.id = g.id) as shares
  from :"schema".gen_durable_due g
  where g.crashes >= 2 and not g.executes
    and (hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)), g.priority, g.eligible_at, g.id) > ($2::bigint, $3::int, $4::text::timestamptz, $5::bigint)
  order by hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)), g.priority, g.eligible_at, g.id
  limit $6::int
), held as materialized (
  select d.due, g.id, g.crashes, g.crashed_in, array(
    select p.process
    from unnest(g.crashed_in) with ordinality as p (process, nth)
    where p.process not in (select unnest($1::bigint[]))
    order by p.nth) as stays
  from (select p.id, p.due from page p where p.shares order by p.id) p
  cross join lateral (
    select d.ctid as due from :"schema".gen_durable_due d where d.ctid = p.due for no key update skip locked
  ) d
  cross join lateral (
    select g.id, g.status, g.crashes, g.trials,
-- include parts/crashed_before.sql
      as crashed_in
    from :"schema".gen_durable g
    where g.id = p.id
    for no key update skip locked
  ) g
  where g.status = 'runnable' and g.crashes >= 2 and g.trials = 0
), exonerated as (
  update :"schema".gen_durable g
  set crashes = h.crashes - cardinality(h.crashed_in) + cardinality(h.stays),
      excused = coalesce(g.excused, 0) + cardinality(h.crashed_in) - cardinality(h.stays), crashed_in = nullif(h.stays, '{}'),
      updated_at = clock_timestamp()
  from held h
  where g.id = any(array[h.id]) and cardinality(h.stays) < cardinality(h.crashed_in)
  returning g.id, g.crashes, h.due
), listed as (
  update :"schema".gen_durable_due d
  set crashes = e.crashes
  from exonerated e
  where d.ctid = e.due
), closed as (
  update :"schema".gen_durable_crashes c
  set open = false
  where c.ctid = any(array(
    select c.ctid
    from :"schema".gen_durable_crashes c
    where c.open and c.process = any($1::bigint[]) and (select count(*) from page) < $6::int
    for no key update skip locked))
)
select p.place, p.priority::int as priority, p.eligible_at::text as eligible_at, p.id,
  (select count(*) from page) as examined, (select count(*) from exonerated) as exonerated
from page p
order by p.place desc, p.priority desc, p.eligible_at desc, p.id desc
limit 1
