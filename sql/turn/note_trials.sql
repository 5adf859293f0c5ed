-- Notes on rows how many trials they have had from which nobody has come back: before a step runs alone, when it has
-- survived that, and when its own actor has died; and that the process has ended that ran it, where that is a worker's,
-- whose end no lease tells of. A row for each: its id, and whether its lease is in force, without which
-- nothing is changed. No row: a stranger holds the row's lock (or it is deleted); try again.
-- While a trial goes on, its process's end is known to be that row's doing: see reap.
-- $1 bigint[] id (each once), $2 text[] token, $3 int[] trials, $4 text[] the worker's process that has ended, or null; $5 bigint id
-- of the one whose trial begins, of which a process has one at a time, or 0
with held as materialized (
  select e.id, e.token, e.trials, e.worker, (e.id = $5::bigint) is true as begins, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
-- include parts/process_of.sql
    as process
  from (select * from unnest($1::bigint[], $2::text[], $3::int[], $4::text[]) as e (id, token, trials, worker) order by e.id) e
-- include parts/lock_row.sql
), noted as (
  update :"schema".gen_durable g
  set trials = h.trials, updated_at = clock_timestamp(),
      crashes = least(g.crashes, 2147483646) + (h.worker is not null)::int,
      crashed_in = case when h.worker is null then g.crashed_in else
-- include parts/crashed_before.sql
        || hashtextextended(h.worker, 0) end
  from held h
  where g.id = any(array[h.id]) and h.fenced
), begun as (
  insert into :"schema".gen_durable_crashes (process, instance_id, token, known)
  select h.process, h.id, h.token, false
  from held h
  where h.fenced and h.begins
), over as (
  delete from :"schema".gen_durable_crashes c
  where c.ctid = any(array(
    select c.tuple
    from held h
    cross join lateral (
      select c.ctid as tuple
      from :"schema".gen_durable_crashes c
      where c.process = h.process and not c.known and (h.begins or c.token = h.token)
      for update skip locked
    ) c
    where h.fenced))
)
select h.id, h.fenced from held h
