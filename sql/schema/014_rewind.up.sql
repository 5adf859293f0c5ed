-- Rewind and fork: an instance goes back to an entry of its history, or another one begins there. Both need entries that
-- have states. What is read of the ledger is held in variables: a sweep may delete it meanwhile. Names inside the quotes are
-- found in this schema alone, and written as gd_move says.

-- The entry of an instance's history from which it could go on: it has a state, and its machine still has the step.
create function :"schema".gd_entry(target bigint, fsm text, seq bigint) returns :"schema".gen_durable_ledger
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  entry gen_durable_ledger;
  steps text[];
begin
  select l.* into entry from gen_durable_ledger l where l.instance_id = gd_entry.target and l.seq = gd_entry.seq;
  if not found then
    raise exception 'the history of instance % has no entry %', gd_entry.target, gd_entry.seq using errcode = 'P0002';
  end if;
  if entry.state is null then
    raise exception 'entry % of instance % has no state; expected a machine whose history is with_state', gd_entry.seq,
      gd_entry.target using errcode = 'MV004';
  end if;
  select m.steps into steps from gen_durable_machines m where m.fsm = gd_entry.fsm and m.version = entry.fsm_version;
  if not entry.to_step = any(steps) then
    raise exception 'step: expected one of % of % v%, got %', pg_catalog.array_to_string(steps, '|'), gd_entry.fsm,
      entry.fsm_version, entry.to_step using errcode = '42704';
  end if;
  return entry;
end
$$;

-- What is wrong with who moves an instance from outside and why, or null.
create function :"schema".gd_mover_fault(reason text, by text) returns text
language sql stable
begin atomic
  select coalesce(
    case when octet_length(gd_mover_fault.reason) > 8192
         then 'reason: expected at most 8192 bytes, got ' || octet_length(gd_mover_fault.reason) end,
    case when gd_mover_fault.by is not null then :"schema".gd_name_fault('by', gd_mover_fault.by, 255) end);
end;

-- Puts an instance that does not execute back to the step and the state of an entry, and returns its seq now. Consumed
-- signals stay consumed, the others in its inbox. Waits for its row, as long as lock_timeout lets it.
create function :"schema".gd_rewind(target bigint, seq bigint, reason text default null, by text default null) returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := gd_mover_fault(gd_rewind.reason, gd_rewind.by);
  was record;
  entry gen_durable_ledger;
  arrival record;
  holder bigint;
  made gen_durable;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'gd_rewind: expected isolation level read committed, got %', current_setting('transaction_isolation')
      using errcode = '25000';
  end if;
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;

  select g.fsm, g.fsm_version, g.step, g.status::text as status, g.seq, g.unique_key, g.unique_scope::text[] as unique_scope
  into was
  from gen_durable g
  where g.id = gd_rewind.target
  for no key update;
  if not found then
    raise exception 'there is no instance %', gd_rewind.target using errcode = 'P0002';
  end if;
  if was.status = 'executing' then
    raise exception 'instance % is executing, step %, seq %', gd_rewind.target, was.step, was.seq using errcode = 'MV003';
  end if;

  entry := gd_entry(gd_rewind.target, was.fsm, gd_rewind.seq);
  if entry.fsm_version <> was.fsm_version then
    raise exception 'entry % is of % v%, and instance % is of v%', gd_rewind.seq, was.fsm, entry.fsm_version, gd_rewind.target,
      was.fsm_version using errcode = 'MV004';
  end if;
  select a.* into arrival from gd_arrival(was.fsm, was.fsm_version, entry.to_step) a;
  select o.id into holder
  from gen_durable o
  where o.unique_guard = was.unique_key and o.id <> gd_rewind.target and arrival.status::text = any(was.unique_scope);
  if found then
    raise exception 'unique_key: instance % has it', holder using errcode = '23505';
  end if;

  update gen_durable g
  set status = arrival.status, seq = g.seq + 1, step = entry.to_step, ledger_step = entry.to_step, state = entry.state,
      result = arrival.result, last_error = null, attempt = 0, crashes = 0, trials = 0, awaits = arrival.awaits,
      deadline = arrival.deadline, wake_reason = null, eligible_at = clock_timestamp(), locked_by = null,
      lease_expires_at = null, updated_at = clock_timestamp()
  where g.id = gd_rewind.target
  returning g.* into made;
  if not found then
    raise exception 'a trigger lets no update of instance % through', gd_rewind.target using errcode = 'P0001';
  end if;
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, by, reason, metadata,
    state)
  values (made.id, made.seq, made.updated_at, made.fsm_version, 'rewind', was.step, made.step, made.attempt, gd_rewind.by,
    gd_rewind.reason, pg_catalog.jsonb_build_object('seq', gd_rewind.seq), made.state);
  return made.seq;
end
$$;

-- Makes an instance that begins at the step and the state of an entry of another one's history, with that one's priority and
-- partition key, in its queue or a given one, and without a unique key. Returns its id.
create function :"schema".gd_fork(
  target bigint, seq bigint, queue text default null, reason text default null, by text default null)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := coalesce(gd_mover_fault(gd_fork.reason, gd_fork.by),
                         case when gd_fork.queue <> '' then gd_name_fault('queue', gd_fork.queue, 255) end);
  origin record;
  entry gen_durable_ledger;
  made bigint;
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;

  select g.fsm, g.queue, g.priority, g.partition_key, g.history into origin from gen_durable g where g.id = gd_fork.target;
  if not found then
    raise exception 'there is no instance %', gd_fork.target using errcode = 'P0002';
  end if;
  entry := gd_entry(gd_fork.target, origin.fsm, gd_fork.seq);
  if (select m.retired from gen_durable_machines m where m.fsm = origin.fsm and m.version = entry.fsm_version) then
    raise exception 'version: % v% is retired', origin.fsm, entry.fsm_version using errcode = 'MV002';
  end if;

  insert into gen_durable (fsm, fsm_version, step, status, state, result, awaits, deadline, queue, priority, partition_key,
    eligible_at, history, ledger_step)
  select origin.fsm, entry.fsm_version, entry.to_step, a.status, entry.state, a.result, a.awaits, a.deadline,
    coalesce(nullif(gd_fork.queue, ''), origin.queue), origin.priority, origin.partition_key, clock_timestamp(),
    origin.history, entry.to_step
  from gd_arrival(origin.fsm, entry.fsm_version, entry.to_step) a
  returning id into made;
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, by, reason, metadata, state)
  values (made, 0, clock_timestamp(), entry.fsm_version, 'fork', entry.to_step, 0, gd_fork.by, gd_fork.reason,
    pg_catalog.jsonb_build_object('id', gd_fork.target, 'seq', gd_fork.seq), entry.state);
  return made;
end
$$;

select :"schema".gd_note_version(14);
