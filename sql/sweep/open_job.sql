-- The first job that has not ended and that no session works on. $1 bigint: behind this one. One row: its number. No row: there is none.
select j.id
from :"schema".gen_durable_jobs j
where j.ended_at is null and j.id > $1::bigint and (hashint8(j.id)::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid::bigint = hashtext('gen_durable job')::bigint & 4294967295)) is not true
order by j.id
limit 1
