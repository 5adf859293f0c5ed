-- Deletes what is left of signals that were consumed longer ago than their instance's machine remembers dedup keys, of a page
-- of signals in the order of their ids. No index tells when signals were consumed: it would cost each of them more than this
-- walk, which ends where signals are too young to have been consumed so long ago. Of young ones, no instance is looked at.
-- $1 bigint id of the last signal of the page before, $2 int signals
-- One row: the id of the last signal of this page, null if the next page is the first; how many it has forgotten.
with forgets as materialized (
  select m.fsm, m.version, m.forget_dedup_after as after
  from :"schema".gen_durable_machines m
  where m.forget_dedup_after is not null
), looked as materialized (
  select s.id, s.target_id, s.consumed_at, s.inserted_at
  from :"schema".gen_durable_signals s
  where s.id > $1::bigint and (select count(*) > 0 from forgets)
  order by s.id
  limit $2::int
), forgotten as (
  delete from :"schema".gen_durable_signals s
  where s.ctid = any(array(
    select x.tuple
    from looked l
    cross join lateral (
      select g.fsm, g.fsm_version from :"schema".gen_durable g where g.id = l.target_id offset 0) g
    cross join lateral (
      select f.after from forgets f where f.fsm = g.fsm and f.version = g.fsm_version offset 0) f
    cross join lateral (
      select s.ctid as tuple
      from :"schema".gen_durable_signals s
      where s.id = l.id and l.consumed_at < statement_timestamp() - f.after
      for update skip locked) x
    where l.consumed_at < statement_timestamp() - (select min(f.after) from forgets f)))
  returning s.id
)
select
  (select max(l.id) from looked l
   having count(*) = $2::int and min(l.inserted_at) < statement_timestamp() - (select min(f.after) from forgets f)) as id,
  (select count(*) from forgotten) as forgotten
