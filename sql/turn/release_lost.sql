-- Releases what a pick or an insert_claimed of unknown fate may have taken; the attempt does not count.
-- One whose unique key would be taken again by that is left to its lease.
-- $1 text[] lease tokens
with applied as (
  update :"schema".gen_durable g
  set
-- include parts/runnable.sql
      , updated_at = clock_timestamp()
  where g.id = any(array(
    select g.id
    from :"schema".gen_durable g
    where g.id = any(array(select unnest(l.ids) from :"schema".gen_durable_leases l where l.token = any($1::text[])))
      and g.status = 'executing' and (g.locked_by in (select unnest($1::text[]))) is true
      and not (
-- include parts/owed.sql
      )
    order by g.id + 0
    for no key update skip locked
  ))
  returning
-- include parts/due_row.sql
    , g.fsm_version
),
-- include parts/listed.sql
select a.id from applied a
