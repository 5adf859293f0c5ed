-- What an upgrade comes to next: of so many instances behind its place, the first 100 that it is for, with their states, which are
-- decoded by whoever asks. $1 bigint job, $2 bigint bytes that states have at the most, but for the first,
-- $3 int how many it looks at
-- A row for each: its id, and its machine, version, step and seq; the version that it goes to, and the step there; its state, or null: it
-- executes. Behind them one without an id: after, behind which the page begins, and upto, the id that it reaches. No row: the job has ended.
with job as materialized (
  select j.* from :"schema".gen_durable_jobs j where j.id = $1::bigint and j.what = 'upgrade' and j.ended_at is null
), examined as materialized (
  select g.id, g.fsm, g.fsm_version, g.step, g.seq, g.status,
    g.status in ('runnable', 'awaiting_signal', 'failed', 'executing') and g.fsm_version <> j.to_version
      and :"schema"._gd_fits(g.fsm, g.fsm_version, g.step, g.status::text, g.queue, g.updated_at, g.last_error, j.fsm, j.fsm_version,
                            j.step, j.status, j.queue, j.changed_before, j.failure) as fits
  from job j
  cross join (
    select g.*
    from :"schema".gen_durable g
    where g.id > (select j.last_id from job j) and g.id <= (select j.highest_id from job j)
    order by g.id
    limit $3::int) g
), chosen as materialized (
  select l.* from examined l where l.fits order by l.id limit 100
), shown as materialized (
  select s.id, s.fsm, s.fsm_version, s.step, s.seq, t.state,
    sum(octet_length(t.state)) over (order by s.id) - octet_length(t.state) as before
  from chosen s
  left join lateral (
    select g.state::text as state
    from :"schema".gen_durable g
    where g.id = s.id and s.status <> 'executing'
    offset 0) t on true
), page as materialized (
  select p.* from shown p where coalesce(p.before, 0) <= $2::bigint
)
select p.id, p.fsm, p.fsm_version as version, p.step, p.seq, j.to_version, coalesce(j.to_steps ->> p.step, p.step) as to_step, p.state,
  null::bigint as after, null::bigint as upto
from page p
cross join job j
union all
select null, null, null, null, null, null, null, null, j.last_id,
  case
    when (select count(*) from page) < (select count(*) from examined l where l.fits) then (select max(p.id) from page p)
    when (select count(*) from examined) = $3::int then (select max(l.id) from examined l)
    else j.highest_id end
from job j
order by id
