-- Bulk verbs: what is done with all instances of a filter, in batches, by whoever works on it: a node, or who waits for it. And
-- pages of instances by a filter. Names inside the quotes are found in this schema alone, and written as _gd_move says.

-- Whether an instance fits a filter, in which null lets all through.
create function :"schema"._gd_fits(
  fsm text, version int, step text, status text, queue text, changed_at timestamptz, failure text,
  its_fsm text, its_version int, its_step text, its_status text, its_queue text, changed_before timestamptz, its_failure text)
returns boolean
language sql immutable
begin atomic
  select (_gd_fits.its_fsm is null or _gd_fits.fsm = _gd_fits.its_fsm)
    and (_gd_fits.its_version is null or _gd_fits.version = _gd_fits.its_version)
    and (_gd_fits.its_step is null or _gd_fits.step = _gd_fits.its_step)
    and (_gd_fits.its_status is null or _gd_fits.status = _gd_fits.its_status)
    and (_gd_fits.its_queue is null or _gd_fits.queue = _gd_fits.its_queue)
    and (_gd_fits.changed_before is null or _gd_fits.changed_at < _gd_fits.changed_before)
    and (_gd_fits.its_failure is null or strpos(_gd_fits.failure, _gd_fits.its_failure) > 0);
end;

-- What is wrong with an upgrade, or null.
create function :"schema"._gd_upgrade_fault(what text, fsm text, version int, to_version int, to_steps jsonb) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_variable
declare
  known gen_durable_machines;
  versions text := (select pg_catalog.string_agg(m.version::text, '|' order by m.version) from gen_durable_machines m
                    where m.fsm = fsm);
begin
  if what <> 'upgrade' then
    return case when to_version is not null or to_steps is not null
                then 'to_version, to_steps: expected upgrade, got ' || what end;
  end if;
  if fsm is null then
    return 'machine: upgrade expects one, got nothing';
  end if;
  select m.* into known from gen_durable_machines m where m.fsm = fsm and m.version = to_version;
  return case
    when known.fsm is null then pg_catalog.format('to_version: expected a version of %s that nodes have had (%s), got %s',
      left(fsm, 255), coalesce(versions, 'none'), coalesce(to_version::text, 'nothing'))
    when known.retired then pg_catalog.format('to_version: %s v%s is retired: it takes no instances', left(fsm, 255), to_version)
    when version = to_version then pg_catalog.format('version: expected another one than to_version, got %s', version)
    when pg_catalog.jsonb_typeof(to_steps) <> 'object' then 'to_steps: expected an object, got ' || pg_catalog.jsonb_typeof(to_steps)
    else (
      select coalesce(
        case when not exists (select from gen_durable_machines m where m.fsm = fsm and s.key = any(m.steps)
                              and (version is null or m.version = version))
             then pg_catalog.format('to_steps: expected steps of %s, got %s', left(fsm, 255)
               || coalesce(' v' || version::text, ''), left(s.key, 255)) end,
        case when not s.value = any(known.steps)
             then pg_catalog.format('to_steps: %s: expected a step of %s v%s (%s), got %s', left(s.key, 255), left(fsm, 255),
                                    to_version, pg_catalog.array_to_string(known.steps, '|'), left(s.value, 255)) end) as fault
      from jsonb_each_text(to_steps) s
      order by fault
      limit 1) end;
end
$$;

-- Makes a job: what is to be done (see _gd_act) with all instances that fit and are there by now. Its number. Refused (22023) is a
-- filter that lets all through. by: null is the user. An upgrade may be of one instance, by its id or key: P0002, it is not there.
create function :"schema".gd_begin_job(
  what text, fsm text default null, version int default null, step text default null, status text default null,
  queue text default null, older_than interval default null, failure text default null, to_queue text default null,
  to_priority int default null, reason text default null, by text default null, dry_run boolean default false,
  to_version int default null, to_steps jsonb default null, target bigint default null, key bytea default null,
  force boolean default false)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
declare
  who text := coalesce(gd_begin_job.by, session_user::text);
  named boolean := gd_begin_job.target is not null or gd_begin_job.key is not null;
  only_id bigint;
  fault text := coalesce(
    case when not gd_begin_job.what in ('retry', 'stop', 'run_now', 'move', 'upgrade')
         then 'what: expected retry|stop|run_now|move|upgrade, got ' || gd_begin_job.what end,
    case when gd_begin_job.what is null then 'what: expected retry|stop|run_now|move|upgrade, got nothing' end,
    case when named and gd_begin_job.what <> 'upgrade' then 'target: expected a filter, or upgrade, got ' || gd_begin_job.what end,
    case when not named and coalesce(gd_begin_job.fsm, gd_begin_job.step, gd_begin_job.status, gd_begin_job.queue, gd_begin_job.failure,
                       gd_begin_job.older_than::text) is null
         then 'filter: expected a machine, a step, a status, a queue, an age or the text of a failure' end,
    case when not gd_begin_job.status = any(_gd_act_statuses(gd_begin_job.what))
         then 'status: ' || gd_begin_job.what || ' expects ' || pg_catalog.array_to_string(_gd_act_statuses(gd_begin_job.what), '|')
           || ', got ' || gd_begin_job.status end,
    case when gd_begin_job.fsm is not null then _gd_name_fault('fsm', gd_begin_job.fsm, 255) end,
    case when gd_begin_job.step is not null then _gd_name_fault('step', gd_begin_job.step, 255) end,
    case when gd_begin_job.queue is not null then _gd_name_fault('queue', gd_begin_job.queue, 255) end,
    case when octet_length(gd_begin_job.failure) not between 1 and 8192
         then 'failure: expected 1 to 8192 bytes, got ' || octet_length(gd_begin_job.failure) end,
    case when gd_begin_job.older_than not between interval '0' and interval '100 years'
         then 'older_than: expected 0 to 100 years, got ' || gd_begin_job.older_than::text end,
    _gd_act_fault(gd_begin_job.what, gd_begin_job.to_queue, gd_begin_job.to_priority, gd_begin_job.reason, who));
  made bigint;
begin
  if fault is null and gd_begin_job.force is not true then
    fault := coalesce(
      gd_unknown(gd_begin_job.queue, gd_begin_job.fsm, gd_begin_job.version, gd_begin_job.step), gd_unknown(gd_begin_job.to_queue));
    if fault is not null then
      raise exception using errcode = 'MV008', message = fault, hint = 'force => true does it all the same.';
    end if;
  end if;
  if fault is null and named then
    select g.id, g.fsm, g.fsm_version into only_id, fsm, version
    from gen_durable g
    where g.id = coalesce(gd_begin_job.target, (select o.id from gen_durable o where o.unique_guard = gd_begin_job.key));
    if not found then
      raise exception 'there is no instance %', _gd_named(gd_begin_job.target, gd_begin_job.key) using errcode = 'P0002';
    end if;
  end if;
  fault := coalesce(fault, _gd_upgrade_fault(gd_begin_job.what, fsm, version, gd_begin_job.to_version, gd_begin_job.to_steps));
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  insert into gen_durable_jobs (what, to_queue, to_priority, to_version, to_steps, fsm, fsm_version, step, status, queue,
    changed_before, failure, dry_run, made_by, reason, target, last_id, highest_id)
  select gd_begin_job.what, gd_begin_job.to_queue, gd_begin_job.to_priority, gd_begin_job.to_version, gd_begin_job.to_steps,
    gd_begin_job.fsm, gd_begin_job.version,
    gd_begin_job.step, coalesce(gd_begin_job.status,
      case gd_begin_job.what when 'retry' then 'failed' when 'run_now' then 'runnable' end),
    gd_begin_job.queue, clock_timestamp() - gd_begin_job.older_than, gd_begin_job.failure, gd_begin_job.dry_run, who,
    gd_begin_job.reason, only_id, coalesce(only_id - 1, -9223372036854775808),
    coalesce(only_id, (select g.id from gen_durable g order by g.id desc limit 1), 0)
  returning gen_durable_jobs.id into made;
  return made;
exception when unique_violation then
  declare
    broken text;
  begin
    get stacked diagnostics broken = constraint_name;
    if broken = any('{gen_durable_jobs_pkey}') then
      perform _gd_refuse_ids('gen_durable_jobs');
    end if;
    raise;
  end;
end
$$;

-- Does with one instance what a job is for, if it fits its filter under its row's lock. answer, detail: see _gd_act; same: it
-- fits no more, or has gone. at_seq, to_step and state: of an upgrade.
create function :"schema"._gd_act_for(
  j :"schema".gen_durable_jobs, which bigint, wait boolean, at_seq bigint default null, to_step text default null,
  state jsonb default null, out answer text, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  held boolean;
  its_step text;
begin
  if wait then
    perform from gen_durable g where g.id = which for no key update;
  end if;
  perform from gen_durable g where g.id = which for no key update skip locked;
  held := found;
  select g.step into its_step
  from gen_durable g
  where g.id = which and g.fsm_version is distinct from j.to_version
    and _gd_fits(g.fsm, g.fsm_version, g.step, g.status::text, g.queue, g.updated_at, g.last_error, j.fsm, j.fsm_version, j.step,
                j.status, j.queue, j.changed_before, j.failure);
  if not found then
    answer := 'same';
  elsif not held then
    answer := 'locked';
  else
    select c.answer, c.detail into answer, detail
    from _gd_act(j.what, which, null, j.to_queue, j.to_priority, j.reason, j.made_by, wait, j.to_version,
                coalesce(to_step, j.to_steps ->> its_step, its_step), at_seq, payload => state) c;
  end if;
end
$$;

-- The same without waiting for strangers; where that cannot be, waits for 100 ms at the most: waited.
create function :"schema"._gd_try_for(
  j :"schema".gen_durable_jobs, which bigint, at_seq bigint, to_step text, state jsonb, out answer text, out detail text,
  out waited boolean)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  timeout text := current_setting('lock_timeout');
begin
  select t.answer, t.detail into answer, detail from _gd_act_for(j, which, false, at_seq, to_step, state) t;
  waited := answer in ('locked', 'unsure');
  if waited then
    perform set_config('lock_timeout', '100ms', true);
    begin
      select t.answer, t.detail into answer, detail from _gd_act_for(j, which, true, at_seq, to_step, state) t;
    exception when lock_not_available or unique_violation then
      answer := 'locked';
      detail := pg_catalog.format('instance %s: %s', which, sqlerrm);
    end;
    perform set_config('lock_timeout', timeout, true);
  end if;
end
$$;

-- Enters in a job that one more of its instances could not be changed.
create function :"schema"._gd_refused(j :"schema".gen_durable_jobs, which bigint, detail text) returns :"schema".gen_durable_jobs
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  j.refused := j.refused + 1;
  j.last_refusal := left(detail, 1000);
  if pg_catalog.cardinality(j.refused_ids) < 100 then
    j.refused_ids := pg_catalog.array_append(j.refused_ids, which);
  end if;
  return j;
end
$$;

-- Works off some of a job, in id order: what it does with instances, and where it has got, is one transaction, of the caller's.
-- False: another transaction works on it, it has ended, or it is an upgrade, for which see _gd_upgrade. One that a stranger has
-- locked, or whose unique key another may be inserting, is waited for 100 ms at the most, and ends the batch.
create function :"schema"._gd_work_on_job(job bigint, most_examined int default 2000, most_changed int default 200) returns boolean
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
declare
  j gen_durable_jobs;
  x record;
  a record;
  statuses text[];
  waited boolean := false;
  ended boolean;
  examined_now bigint := 0;
  done bigint := 0;
  tried bigint := 0;
begin
  select o.* into j from gen_durable_jobs o where o.id = job and o.ended_at is null and o.what <> 'upgrade' for update skip locked;
  if not found then
    return false;
  end if;
  statuses := _gd_act_statuses(j.what);

  for x in
    select p.id, p.status, _gd_fits(p.fsm, p.fsm_version, p.step, p.status, p.queue, p.updated_at, p.last_error, j.fsm,
                                    j.fsm_version,
                                   j.step, j.status, j.queue, j.changed_before, j.failure) as fits
    from (
      (
        select g.id, g.fsm, g.fsm_version, g.step, g.status::text as status, g.queue, g.updated_at, g.last_error
        from gen_durable g
        where j.status = 'failed' and g.failed_id > j.last_id and g.failed_id <= j.highest_id
        order by g.failed_id
        limit most_examined
      )
      union all
      (
        select g.id, g.fsm, g.fsm_version, g.step, g.status::text, g.queue, g.updated_at, g.last_error
        from gen_durable g
        where (j.status = 'failed') is not true and g.id > j.last_id and g.id <= j.highest_id
        order by g.id
        limit most_examined
      )) p
    order by p.id
  loop
    examined_now := examined_now + 1;
    j.last_id := x.id;
    if x.fits and x.status = any(statuses) and j.dry_run then
      done := done + 1;
    elsif x.fits and (x.status = any(statuses) or x.status = 'executing') then
      tried := tried + 1;
      select t.* into a from _gd_try_for(j, x.id, null, null, null) t;
      waited := a.waited;
      if a.answer = 'done' then
        done := done + 1;
      elsif a.answer <> 'same' then
        j := _gd_refused(j, x.id, a.detail);
      end if;
    end if;
    exit when waited or tried >= most_changed;
  end loop;

  if done > 0 and not j.dry_run then
    perform gd_announce();
  end if;
  ended := not waited and tried < most_changed and examined_now < most_examined;
  update gen_durable_jobs o
  set last_id = case when ended then j.highest_id else j.last_id end, examined = o.examined + examined_now,
      changed = o.changed + done, refused = j.refused, last_refusal = j.last_refusal, refused_ids = j.refused_ids,
      ended_at = case when ended then clock_timestamp() end
  where o.id = job;
  return true;
end
$$;

-- Works off some of an upgrade, up to an id: the instances behind expected that a node has found there with this statement's
-- page (upgrade_page), at which seqs, and what is wrong with each, or null; the step where it stands then, and the state that it gets, or
-- null: as the job says, and as it is. Its first ids only, if a stranger has to be waited for. False: another transaction works on it, it has ended, or it is not where that page began.
create function :"schema"._gd_upgrade(
  job bigint, expected bigint, upto bigint, ids bigint[], seqs bigint[], faults text[], steps text[] default null,
  states jsonb[] default null)
returns boolean
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  j gen_durable_jobs;
  x record;
  a record;
  waited boolean := false;
  done bigint := 0;
  reached bigint := upto;
begin
  select o.* into j
  from gen_durable_jobs o
  where o.id = job and o.ended_at is null and o.what = 'upgrade' and o.last_id = expected
  for update skip locked;
  if not found then
    return false;
  end if;
  for x in
    select u.id, u.seq, u.fault, u.step, u.state
    from rows from (pg_catalog.unnest(ids), pg_catalog.unnest(seqs), pg_catalog.unnest(faults), pg_catalog.unnest(steps),
                    pg_catalog.unnest(states)) u (id, seq, fault, step, state)
    order by u.id
  loop
    if x.fault is not null then
      j := _gd_refused(j, x.id, x.fault);
    elsif j.dry_run then
      done := done + 1;
    else
      select t.* into a from _gd_try_for(j, x.id, x.seq, x.step, x.state) t;
      if a.answer = 'done' then
        done := done + 1;
      elsif a.answer <> 'same' then
        j := _gd_refused(j, x.id, a.detail);
      end if;
      if a.waited then
        reached := x.id;
        exit;
      end if;
    end if;
  end loop;
  if done > 0 and not j.dry_run then
    perform gd_announce();
  end if;
  update gen_durable_jobs o
  set last_id = reached, changed = o.changed + done, refused = j.refused, last_refusal = j.last_refusal,
      refused_ids = j.refused_ids, ended_at = case when reached >= j.highest_id then clock_timestamp() end,
      examined = o.examined + (select count(*) from gen_durable g where g.id > expected and g.id <= reached)
  where o.id = job;
  return true;
end
$$;

-- A job that has not ended does not go on. Waits for who works on it. Whether there is one.
create function :"schema".gd_cancel_job(job bigint) returns boolean
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
begin
  update gen_durable_jobs j set ended_at = clock_timestamp(), cancelled = true where j.id = job and j.ended_at is null;
  return found;
end
$$;
