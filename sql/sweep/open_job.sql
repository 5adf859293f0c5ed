-- The first job that has not ended and that no session works on; an upgrade only if this node has both versions. $1 text[] its machines,
-- $2 int[] the version of each. One row: its number, and whether it is an upgrade. No row: there is none.
select j.id, j.what = 'upgrade' as upgrades
from :"schema".gen_durable_jobs j
where j.ended_at is null and (hashint8(j.id)::bigint & 4294967295 in (
  select l.objid::bigint
  from pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid::bigint = hashtext('gen_durable job')::bigint & 4294967295)) is not true
  and (j.what <> 'upgrade'
    or (j.fsm, j.to_version) in (select m.fsm, m.version from unnest($1::text[], $2::int[]) m (fsm, version))
       and (j.fsm_version is null
            or (j.fsm, j.fsm_version) in (select m.fsm, m.version from unnest($1::text[], $2::int[]) m (fsm, version))))
order by j.id
limit 1
