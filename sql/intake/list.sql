-- A page of instances that fit a filter, the newest first. It looks at so many at the most, in the order of their ids: of those that have
-- failed, or execute, if that is asked for.
-- $1 text[] one machine, or empty: any; $2 bigint[] one version, or empty; $3 text[] one step, or empty; $4 text[] one status, or empty;
-- $5 text[] one queue, or empty; $6 bigint[] not changed for so long, in us, or empty; $7 text[] text of its last_error, or empty;
-- $8 bigint: instances before this one; $9 int limit; $10 int at how many it looks (a constant would be planned with another path while the
-- table is small)
-- A row for each. Time in us since 1970. Names that are longer than any of ours are cut. Behind them one without an id: next, before
-- which the next page begins, or null: there is no more.
with examined as not materialized (
  (
    select g.id, g.fsm, g.fsm_version, g.step, g.status, g.queue, g.priority, g.attempt, g.updated_at, g.last_error
    from :"schema".gen_durable g
    where ($4::text[])[1] = 'failed' and g.failed_id < $8::bigint
    order by g.failed_id desc
    limit $10::int
  )
  union all
  (
    select g.id, g.fsm, g.fsm_version, g.step, g.status, g.queue, g.priority, g.attempt, g.updated_at, g.last_error
    from
-- include parts/executing.sql
    where ($4::text[])[1] = 'executing' and g.id < $8::bigint
    order by g.id + 0 desc
    limit $10::int
  )
  union all
  (
    select g.id, g.fsm, g.fsm_version, g.step, g.status, g.queue, g.priority, g.attempt, g.updated_at, g.last_error
    from :"schema".gen_durable g
    where (($4::text[])[1] in ('failed', 'executing')) is not true and g.id < $8::bigint
    order by g.id desc
    limit $10::int
  )
), found as materialized (
  select l.*
  from examined l
  where :"schema"._gd_fits(l.fsm, l.fsm_version, l.step, l.status::text, l.queue, l.updated_at, l.last_error, ($1::text[])[1],
    ($2::bigint[])[1]::int, ($3::text[])[1], ($4::text[])[1], ($5::text[])[1],
    statement_timestamp() - ($6::bigint[])[1] * interval '1 microsecond', ($7::text[])[1])
  limit $9::int
)
select f.id, left(f.fsm, 1025) as fsm, f.fsm_version as version, left(f.step, 1025) as step, f.status::text as status,
  left(f.queue, 1025) as queue, f.priority, f.attempt, :"schema"._gd_us(f.updated_at) as updated_at_us,
  left(f.last_error, 1000) as last_error, null::bigint as next
from found f
union all
select null, null, null, null, null, null, null, null, null, null,
  case when (select count(*) from found) = $9::int then (select min(f.id) from found f)
       else (select l.id from examined l offset $10::int - 1 limit 1) end
