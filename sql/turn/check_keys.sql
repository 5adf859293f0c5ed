-- With the locks in hand, and a snapshot that is younger than them: releases the rows in gd.keyed that did not win, or
-- whose key has another row that executes or comes first by now. Hands the others on as gd.kept.
-- For the statuses behind a select see pick_keyed. The priorities of a key are walked only if it has a more urgent row.
-- A row for each that was released: its key, and whether that is locked elsewhere.
with mine as materialized (
  select g.id, g.partition_key, g.priority, g.eligible_at,
    g.id in (select unnest(current_setting('gd.won')::bigint[])) as won
  from :"schema".gen_durable g
  where g.id = any(current_setting('gd.keyed')::bigint[])
), lost as materialized (
  select k.id, k.partition_key, k.won
  from mine k
  where not k.won
    or exists (
      select from :"schema".gen_durable_due o
      where o.partition_key = k.partition_key and o.executes = (select true) and o.id <> k.id)
    or exists (
      select from :"schema".gen_durable_due o
      where o.partition_key = k.partition_key and o.executes = (select false)
        and o.priority = k.priority and o.eligible_at <= k.eligible_at
        and (o.eligible_at, o.id) < (k.eligible_at, k.id))
    or exists (
      select from :"schema".gen_durable_due o
      where o.partition_key = k.partition_key and o.executes = (select false) and o.priority < k.priority)
    and exists (
-- include parts/key_levels.sql
      select
      from level l
      where l.priority < k.priority and exists (
        select from :"schema".gen_durable_due o
        where o.partition_key = k.partition_key and o.executes = (select false)
          and o.priority = l.priority and o.eligible_at <= statement_timestamp()))
), released as (
  update :"schema".gen_durable g
  set
-- include parts/runnable.sql
  where g.id = any(array(select l.id from lost l))
  returning g.id, g.partition_key
), listed as (
  update :"schema".gen_durable_due d
  set executes = false
  where d.ctid = any(array(
    select k.due
    from released a
-- include parts/keyed_place.sql
  ))
)
select l.partition_key, not l.won as elsewhere
from lost l
union all
select null, null -- no row, but the list is handed on
where set_config('gd.kept', coalesce((select array_agg(m.id) from mine m where m.id not in (select l.id from lost l)), '{}')::text, true) is null
