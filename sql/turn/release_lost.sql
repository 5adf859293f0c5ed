-- Gives back what a pick or an insert_claimed of unknown fate may have taken; the attempt does not count (spec [A11]).
-- One whose unique key would be taken again by that is left to its lease.
-- $1 text[] lease tokens
update :"schema".gen_durable g
set status = 'runnable', locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
where g.id = any(array(
  select l.id
  from :"schema".gen_durable l
  where l.status = 'executing' and (l.locked_by in (select unnest($1::text[]))) is true
    and (l.unique_key is null or 'executing' = any(l.unique_scope) or not 'runnable' = any(l.unique_scope))
  order by l.id + 0
  for no key update skip locked
))
returning g.id
