-- Deletes finished instances with their signals and histories: of these ids, those that still are as whoever chose them saw
-- them. Who is locked, or has a share taken by a stranger's insert of a signal, is left out. May wait for strangers who have
-- locked a signal, or what refers to an instance: behind lock_timeout. One that a foreign key of somebody's refers to ends the
-- statement with an error.
-- $1 bigint[] id; $2 bigint least age, in us since their end, or -1: those whose time is over; $3 text status, or nothing: any
-- One row: how many were deleted; kept: the ids of those that a trigger of somebody's has kept.
with held as materialized (
  select g.id, g.ctid as tuple
  from :"schema".gen_durable g
  where g.id = any($1::bigint[]) and g.status in ('done', 'failed')
    and case when $2::bigint < 0 then g.expires_at < statement_timestamp()
             else g.updated_at < statement_timestamp() - $2::bigint * interval '1 microsecond' end
    and ($3::text = '' or g.status::text = $3::text)
  order by g.id + 0
  for update skip locked
), erased as (
  delete from :"schema".gen_durable g
  where g.ctid = any(array(select h.tuple from held h))
  returning g.id, g.history
),
-- include parts/erased_ledger.sql
select (select count(*) from erased) as erased,
  array(select h.id from held h where h.id not in (select e.id from erased e)) as kept
