-- Functions of somebody's that bear names of the library's. $1 bool: the library is installed; else none of these is its own.
-- A row for each, and where it is installed also for its own of that name: name, with the types of its arguments.
select p.oid::regprocedure::text as name
from pg_catalog.pg_proc p
where p.pronamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = :'schema') and p.proname ~ '^_?gd_'
  and (not $1::bool or exists (
    select
    from pg_catalog.pg_proc o
    where o.pronamespace = p.pronamespace and o.proname = p.proname and o.oid <> p.oid))
order by 1
