-- Finished instances that a prune is about, of a page of all in the order of their ids. Locks nothing: erase judges again.
-- $1 bigint id of the last instance of the page before, $2 int instances, $3 text fsm, or nothing: any, $4 int version, or 0: any,
-- $5 text status, or nothing: any, $6 bigint least age, in us since their end
-- One row: the id of the last instance of this page, null if it was the last page; how many it had; ids: of those meant.
with examined as materialized (
  select g.id, g.fsm, g.fsm_version, g.status, g.updated_at
  from :"schema".gen_durable g
  where g.id > $1::bigint
  order by g.id
  limit $2::int
)
select (select max(l.id) from examined l having count(*) = $2::int) as last, (select count(*) from examined) as examined,
  array(
    select l.id
    from examined l
    where l.status in ('done', 'failed') and ($3::text = '' or l.fsm = $3::text) and ($4::int = 0 or l.fsm_version = $4::int)
      and ($5::text = '' or l.status::text = $5::text)
      and l.updated_at < statement_timestamp() - $6::bigint * interval '1 microsecond') as ids
