-- Jobs that have not ended, and the last hundred of the others; or one. Times in us since 1970. $1 bigint job, or 0: all
-- A row for each, the newest first: see gd::job_row. worked_on: another session has its lock. nodes: which nodes that live can do an
-- upgrade that has not ended.
with held as materialized (
  select l.objid::bigint as job
  from pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.pid <> pg_backend_pid()
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid::bigint = hashtext('gen_durable job')::bigint & 4294967295
), chosen as (
  (select j.id from :"schema".gen_durable_jobs j where j.id = $1::bigint)
  union
  (select j.id from :"schema".gen_durable_jobs j where $1::bigint = 0 and j.ended_at is null order by j.id desc limit 1000)
  union
  (select j.id from :"schema".gen_durable_jobs j where $1::bigint = 0 order by j.id desc limit 100)
)
select j.id, j.what, jsonb_strip_nulls(jsonb_build_object('machine', left(j.fsm, 255), 'version', j.fsm_version, 'step',
    left(j.step, 255), 'status', j.status, 'queue', left(j.queue, 255), 'changed_before', j.changed_before, 'failure',
    left(j.failure, 255), 'to_queue', j.to_queue, 'to_priority', j.to_priority, 'to_version', j.to_version, 'to_steps', j.to_steps,
    'instance', j.target))::text as which,
  j.dry_run, left(j.made_by, 1025) as by, left(j.reason, 8192) as reason, j.last_id, j.highest_id, j.examined, j.changed,
  j.refused, left(j.last_refusal, 1025) as last_refusal, j.refused_ids, (extract(epoch from j.created_at) * 1000000)::bigint as created_at_us,
  (extract(epoch from j.ended_at) * 1000000)::bigint as ended_at_us, j.cancelled,
  (hashint8(j.id)::bigint & 4294967295 in (select h.job from held h)) is true as worked_on,
  case when j.what = 'upgrade' and j.ended_at is null then array(
    select left(n.node, 1025)
    from :"schema".gen_durable_nodes n
    cross join lateral jsonb_path_query(n.machines, '$[*]') k
    where k ->> 'name' = j.fsm and k ->> 'version' = j.to_version::text and exists (
      select
      from (
        select f #>> '{}' as version from jsonb_path_query(k, '$.from[*]') f
        union all
        select o ->> 'version' from jsonb_path_query(n.machines, '$[*]') o where o ->> 'name' = j.fsm) v
      where v.version <> j.to_version::text and (j.fsm_version is null or v.version = j.fsm_version::text)) and
-- include parts/lives.sql
    order by n.node
    limit 100) else '{}' end as nodes
from chosen s
cross join lateral (select j.* from :"schema".gen_durable_jobs j where j.id = s.id offset 0) j
order by j.id desc
