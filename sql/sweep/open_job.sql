-- The first job behind that one which has not ended and that no session works on; an upgrade only if this node can judge it. $1 text[] machines,
-- $2 int[] versions that it can take instances from, $3 int[] to which, $4 bigint job
-- One row: its number, and whether it is an upgrade. No row: there is none.
select j.id, j.what = 'upgrade' as upgrades
from :"schema".gen_durable_jobs j
where j.ended_at is null and j.id > $4::bigint and (hashint8(j.id)::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid::bigint = hashtext('gen_durable job')::bigint & 4294967295)) is not true
  and (j.what <> 'upgrade'
    or exists (
      select
      from unnest($1::text[], $2::int[], $3::int[]) m (fsm, version, to_version)
      where m.fsm = j.fsm and m.to_version = j.to_version and (j.fsm_version is null or m.version = j.fsm_version)))
order by j.id
limit 1
