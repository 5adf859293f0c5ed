-- Bulk verbs: what is done with all instances of a filter, in batches, by whoever works on it: a node, or who waits for it. And
-- pages of instances by a filter. Names inside the quotes are found in this schema alone, and written as gd_move says.

-- Failed instances, of which few are among many, by id. No update of a row that does not fail, or come back, has to do with it.
create index gen_durable_failed on :"schema".gen_durable (id) where status = 'failed';

create table :"schema".gen_durable_jobs (
  id           bigint generated always as identity primary key,
  what         text not null check (what in ('retry', 'stop', 'run_now', 'move')),
  to_queue     text,        -- of move; null: as it is
  to_priority  smallint,    -- the same
  fsm          text,        -- of the filter, in which null lets all through
  fsm_version  int,
  step         text,
  status       text,
  queue        text,
  changed_before timestamptz,
  failure      text,        -- that occurs in last_error
  dry_run      boolean not null,
  made_by      text not null,
  reason       text,
  last_id      bigint not null default -9223372036854775808, -- worked off up to this one
  highest_id   bigint not null,           -- where it ends
  looked_at    bigint not null default 0, -- instances
  changed      bigint not null default 0, -- of these; of a dry run: that would be
  refused      bigint not null default 0, -- that fit the filter, and could not be changed
  last_refusal text,
  created_at   timestamptz not null default clock_timestamp(),
  ended_at     timestamptz,
  cancelled    boolean not null default false
);
create index gen_durable_jobs_open on :"schema".gen_durable_jobs (id) where ended_at is null;

-- Whether an instance fits a filter, in which null lets all through.
create function :"schema".gd_fits(
  fsm text, version int, step text, status text, queue text, changed_at timestamptz, failure text,
  its_fsm text, its_version int, its_step text, its_status text, its_queue text, changed_before timestamptz, its_failure text)
returns boolean
language sql immutable
begin atomic
  select (gd_fits.its_fsm is null or gd_fits.fsm = gd_fits.its_fsm)
    and (gd_fits.its_version is null or gd_fits.version = gd_fits.its_version)
    and (gd_fits.its_step is null or gd_fits.step = gd_fits.its_step)
    and (gd_fits.its_status is null or gd_fits.status = gd_fits.its_status)
    and (gd_fits.its_queue is null or gd_fits.queue = gd_fits.its_queue)
    and (gd_fits.changed_before is null or gd_fits.changed_at < gd_fits.changed_before)
    and (gd_fits.its_failure is null or strpos(gd_fits.failure, gd_fits.its_failure) > 0);
end;

-- Makes a job: what is to be done (see gd_act) with all instances that fit and are there by now. Its number. Refused (22023) is a
-- filter that lets all through. by: null is the user.
create function :"schema".gd_begin_job(
  what text, fsm text default null, version int default null, step text default null, status text default null,
  queue text default null, older_than interval default null, failure text default null, to_queue text default null,
  to_priority int default null, reason text default null, by text default null, dry_run boolean default false)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  who text := coalesce(gd_begin_job.by, session_user::text);
  fault text := coalesce(
    case when not gd_begin_job.what in ('retry', 'stop', 'run_now', 'move')
         then 'what: expected retry|stop|run_now|move, got ' || gd_begin_job.what end,
    case when gd_begin_job.what is null then 'what: expected retry|stop|run_now|move, got nothing' end,
    case when coalesce(gd_begin_job.fsm, gd_begin_job.step, gd_begin_job.status, gd_begin_job.queue, gd_begin_job.failure,
                       gd_begin_job.older_than::text) is null
         then 'filter: expected a machine, a step, a status, a queue, an age or the text of a failure' end,
    case when not gd_begin_job.status = any(gd_act_statuses(gd_begin_job.what))
         then 'status: ' || gd_begin_job.what || ' expects ' || pg_catalog.array_to_string(gd_act_statuses(gd_begin_job.what), '|')
           || ', got ' || gd_begin_job.status end,
    case when gd_begin_job.older_than not between interval '0' and interval '100 years'
         then 'older_than: expected 0 to 100 years, got ' || gd_begin_job.older_than::text end,
    gd_act_fault(gd_begin_job.what, gd_begin_job.to_queue, gd_begin_job.to_priority, gd_begin_job.reason, who));
  made bigint;
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  insert into gen_durable_jobs (what, to_queue, to_priority, fsm, fsm_version, step, status, queue, changed_before, failure,
    dry_run, made_by, reason, highest_id)
  select gd_begin_job.what, gd_begin_job.to_queue, gd_begin_job.to_priority, gd_begin_job.fsm, gd_begin_job.version,
    gd_begin_job.step, coalesce(gd_begin_job.status, case gd_begin_job.what when 'retry' then 'failed' when 'run_now' then 'runnable' end),
    gd_begin_job.queue, clock_timestamp() - gd_begin_job.older_than, gd_begin_job.failure, gd_begin_job.dry_run, who,
    gd_begin_job.reason, coalesce((select g.id from gen_durable g order by g.id desc limit 1), 0)
  returning gen_durable_jobs.id into made;
  return made;
end
$$;

-- Does with one instance what a job is for, if it fits its filter under its row's lock. answer, detail: see gd_act; same: it fits no
-- more, or has gone.
create function :"schema".gd_act_for(
  j :"schema".gen_durable_jobs, which bigint, wait boolean, out answer text, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  held boolean;
begin
  if wait then
    perform from gen_durable g where g.id = which for no key update;
  end if;
  perform from gen_durable g where g.id = which for no key update skip locked;
  held := found;
  perform
  from gen_durable g
  where g.id = which
    and gd_fits(g.fsm, g.fsm_version, g.step, g.status::text, g.queue, g.updated_at, g.last_error, j.fsm, j.fsm_version, j.step,
                j.status, j.queue, j.changed_before, j.failure);
  if not found then
    answer := 'same';
  elsif not held then
    answer := 'locked';
  else
    select c.answer, c.detail into answer, detail
    from gd_act(j.what, which, null, j.to_queue, j.to_priority, j.reason, j.made_by, wait) c;
  end if;
end
$$;

-- Works off some of a job, in id order: what it does with instances, and where it has got, is one transaction, of the caller's.
-- False: another transaction works on it, or it has ended. One that a stranger has locked, or whose unique key another may be
-- inserting, is waited for 100 ms at the most, and ends the batch.
create function :"schema".gd_work_on_job(job bigint, most_looked int default 2000, most_changed int default 200) returns boolean
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  j gen_durable_jobs;
  x record;
  a record;
  statuses text[];
  waited boolean := false;
  ended boolean;
  looked bigint := 0;
  done bigint := 0;
  tried bigint := 0;
  timeout text := current_setting('lock_timeout');
begin
  select o.* into j from gen_durable_jobs o where o.id = job and o.ended_at is null for update skip locked;
  if not found then
    return false;
  end if;
  statuses := gd_act_statuses(j.what);

  for x in
    select p.id, p.status, gd_fits(p.fsm, p.fsm_version, p.step, p.status, p.queue, p.updated_at, p.last_error, j.fsm, j.fsm_version,
                                   j.step, j.status, j.queue, j.changed_before, j.failure) as fits
    from (
      (
        select g.id, g.fsm, g.fsm_version, g.step, g.status::text as status, g.queue, g.updated_at, g.last_error
        from gen_durable g
        where j.status = 'failed' and g.status operator(pg_catalog.=) 'failed' and g.id > j.last_id and g.id <= j.highest_id
        order by g.id
        limit most_looked
      )
      union all
      (
        select g.id, g.fsm, g.fsm_version, g.step, g.status::text, g.queue, g.updated_at, g.last_error
        from gen_durable g
        where (j.status = 'failed') is not true and g.id > j.last_id and g.id <= j.highest_id
        order by g.id
        limit most_looked
      )) p
    order by p.id
  loop
    looked := looked + 1;
    j.last_id := x.id;
    if x.fits and x.status = any(statuses) and j.dry_run then
      done := done + 1;
    elsif x.fits and (x.status = any(statuses) or x.status = 'executing') then
      tried := tried + 1;
      select t.* into a from gd_act_for(j, x.id, false) t;
      if a.answer in ('locked', 'unsure') then
        waited := true;
        perform set_config('lock_timeout', '100ms', true);
        begin
          select t.* into a from gd_act_for(j, x.id, true) t;
        exception when lock_not_available or unique_violation then
          a.answer := 'locked';
          a.detail := pg_catalog.format('instance %s: %s', x.id, sqlerrm);
        end;
        perform set_config('lock_timeout', timeout, true);
      end if;
      if a.answer = 'done' then
        done := done + 1;
      elsif a.answer <> 'same' then
        j.refused := j.refused + 1;
        j.last_refusal := a.detail;
      end if;
    end if;
    exit when waited or tried >= most_changed;
  end loop;

  if done > 0 and not j.dry_run then
    perform gd_announce();
  end if;
  ended := not waited and tried < most_changed and looked < most_looked;
  update gen_durable_jobs o
  set last_id = case when ended then j.highest_id else j.last_id end, looked_at = o.looked_at + looked,
      changed = o.changed + done, refused = j.refused, last_refusal = left(j.last_refusal, 1000),
      ended_at = case when ended then clock_timestamp() end
  where o.id = job;
  return true;
end
$$;

-- A job that has not ended does not go on. Waits for who works on it. Whether there is one.
create function :"schema".gd_cancel_job(job bigint) returns boolean
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  update gen_durable_jobs j set ended_at = clock_timestamp(), cancelled = true where j.id = job and j.ended_at is null;
  return found;
end
$$;

select :"schema".gd_note_version(23);
