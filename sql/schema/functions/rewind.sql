-- Rewind and fork: an instance goes back to an entry of its history, or another one begins there. Both need entries that
-- have states. What is read of the ledger is held in variables: a sweep may delete it meanwhile. Names inside the quotes are
-- found in this schema alone, and written as _gd_move says.

-- The entry of an instance's history from which it could go on: it has a state, and its machine still has the step.
create function :"schema"._gd_entry(target bigint, fsm text, seq bigint) returns :"schema".gen_durable_ledger
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  entry gen_durable_ledger;
  steps text[];
begin
  select l.* into entry from gen_durable_ledger l where l.instance_id = _gd_entry.target and l.seq = _gd_entry.seq;
  if not found then
    raise exception 'the history of instance % has no entry %', _gd_entry.target, _gd_entry.seq using errcode = 'P0002';
  end if;
  if entry.state is null then
    raise exception 'entry % of instance % has no state; expected a machine whose history is with_state', _gd_entry.seq,
      _gd_entry.target using errcode = 'MV004';
  end if;
  select m.steps into steps from gen_durable_machines m where m.fsm = _gd_entry.fsm and m.version = entry.fsm_version;
  if not entry.to_step = any(steps) then
    raise exception 'step: expected one of % of % v%, got %', pg_catalog.array_to_string(steps, '|'), _gd_entry.fsm,
      entry.fsm_version, entry.to_step using errcode = '42704';
  end if;
  return entry;
end
$$;

-- Puts an instance that does not execute back to the step and the state of an entry, and tells its seq and status now. Consumed
-- signals stay consumed, the others in its inbox. Waits for its row, as long as lock_timeout lets it.
create function :"schema"._gd_rewind(
  target bigint, key bytea, seq bigint, reason text, by text, out seq_now bigint, out status_now text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := _gd_mover_fault(_gd_rewind.reason, _gd_rewind.by);
  was record;
  entry gen_durable_ledger;
  arrival record;
  holder bigint;
  made gen_durable;
  which bigint;
  violated text;
  trusted text := coalesce(current_setting('gd.trusted', true), '');
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'gd_rewind: expected isolation level read committed, got %', current_setting('transaction_isolation')
      using errcode = '25000';
  end if;
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;

  which := case when key is null then _gd_rewind.target else _gd_hold(key) end;
  select g.fsm, g.fsm_version, g.step, g.status::text as status, g.seq, g.unique_key, g.unique_scope::text[] as unique_scope
  into was
  from gen_durable g
  where g.id = which
  for no key update;
  if not found then
    raise exception 'there is no instance %', _gd_named(_gd_rewind.target, key) using errcode = 'P0002';
  end if;
  if was.status = 'executing' then
    raise exception 'instance % is executing, step %, seq %', which, was.step, was.seq using errcode = 'MV003';
  end if;

  entry := _gd_entry(which, was.fsm, _gd_rewind.seq);
  if entry.fsm_version <> was.fsm_version then
    raise exception 'entry % is of % v%, and instance % is of v%', _gd_rewind.seq, was.fsm, entry.fsm_version, which,
      was.fsm_version using errcode = 'MV004';
  end if;
  select a.* into arrival from _gd_arrival(was.fsm, was.fsm_version, entry.to_step) a;
  select o.id into holder
  from gen_durable o
  where o.unique_guard = was.unique_key and o.id <> which and arrival.status::text = any(was.unique_scope);
  if found then
    raise exception 'unique_key: instance % has it', holder using errcode = 'MV006';
  end if;

  perform set_config('gd.trusted', case trusted when 'all' then 'json' else trusted end, true);
  update gen_durable g
  set status = arrival.status, failed_id = null,
      unique_guard = case when g.unique_key is not null and arrival.status::text = any(g.unique_scope::text[])
                          then g.unique_key end,
      seq = g.seq + 1, step = entry.to_step, ledger_step = entry.to_step, state = entry.state,
      result = arrival.result, last_error = null, attempt = 0, crashes = 0, excused = null, trials = 0, awaits = arrival.awaits,
      awaits_also = null, deadline = arrival.deadline, wake_reason = null,
      expires_at = case when arrival.status::text = 'done'
        then _gd_expiry(was.fsm, was.fsm_version, text 'done', was.unique_scope) end,
      eligible_at = clock_timestamp(), locked_by = null,
      lease_expires_at = null, updated_at = clock_timestamp()
  where g.id = which
  returning g.* into made;
  if not found then
    raise exception 'a trigger lets no update of instance % through', which using errcode = 'P0001';
  end if;
  perform set_config('gd.trusted', trusted, true);
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, by, reason, metadata,
    state)
  values (made.id, made.seq, made.updated_at, made.fsm_version, 'rewind', was.step, made.step, made.attempt, _gd_rewind.by,
    _gd_rewind.reason, pg_catalog.jsonb_build_object('seq', _gd_rewind.seq), made.state);
  if arrival.status::text = 'runnable' then
    perform gd_announce();
  end if;
  seq_now := made.seq;
  status_now := made.status::text;
exception when unique_violation then -- a stranger has just inserted its key
  get stacked diagnostics violated = constraint_name;
  if violated <> 'gen_durable_unique' then
    raise;
  end if;
  raise exception 'unique_key: % has it', coalesce(
    (select 'instance ' || o.id::text from gen_durable o where o.unique_guard = was.unique_key), 'another instance')
    using errcode = 'MV006';
end
$$;

-- The same, named by its id, or by the key that it has: its seq now.
create function :"schema".gd_rewind(
  target bigint default null, seq bigint default null, reason text default null, by text default null,
  key text default null, key_bytes bytea default null)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
begin
  return (
    select p.seq_now
    from _gd_rewind(target, _gd_address('target', target, key, key_bytes), gd_rewind.seq, gd_rewind.reason, gd_rewind.by) p);
end
$$;

-- Makes an instance that begins at the step and the state of an entry of another one's history, with that one's priority and
-- partition key, in its queue or a given one, and without a unique key. The other one is named by its id, or by the key that
-- it has. Returns the new one's id.
create function :"schema".gd_fork(
  target bigint default null, seq bigint default null, queue text default null, reason text default null,
  by text default null, key text default null, key_bytes bytea default null)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
declare
  fault text := coalesce(_gd_mover_fault(gd_fork.reason, gd_fork.by),
                         case when gd_fork.queue <> '' then _gd_name_fault('queue', gd_fork.queue, 255) end);
  named bytea := _gd_address('target', gd_fork.target, gd_fork.key, gd_fork.key_bytes);
  origin record;
  entry gen_durable_ledger;
  made bigint;
  trusted text := coalesce(current_setting('gd.trusted', true), '');
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;

  select g.id, g.fsm, g.queue, g.priority, g.partition_key, g.history
  into origin
  from gen_durable g
  where g.id = case when named is null then gd_fork.target
                    else (select o.id from gen_durable o where o.unique_guard = named) end;
  if not found then
    raise exception 'there is no instance %', _gd_named(gd_fork.target, named) using errcode = 'P0002';
  end if;
  entry := _gd_entry(origin.id, origin.fsm, gd_fork.seq);
  if (select m.retired from gen_durable_machines m where m.fsm = origin.fsm and m.version = entry.fsm_version) then
    raise exception 'version: % v% is retired', origin.fsm, entry.fsm_version using errcode = 'MV002';
  end if;

  perform set_config('gd.trusted', case trusted when 'all' then 'json' else trusted end, true);
  insert into gen_durable (fsm, fsm_version, step, status, state, result, awaits, deadline, queue, priority, partition_key,
    eligible_at, history, ledger_step)
  select origin.fsm, entry.fsm_version, entry.to_step, a.status, entry.state, a.result, a.awaits, a.deadline,
    coalesce(nullif(gd_fork.queue, ''), origin.queue), origin.priority, origin.partition_key, clock_timestamp(),
    origin.history, entry.to_step
  from _gd_arrival(origin.fsm, entry.fsm_version, entry.to_step) a
  returning id into made;
  perform set_config('gd.trusted', trusted, true);
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, by, reason, metadata, state)
  values (made, 0, clock_timestamp(), entry.fsm_version, 'fork', entry.to_step, 0, gd_fork.by, gd_fork.reason,
    pg_catalog.jsonb_build_object('id', origin.id, 'seq', gd_fork.seq), entry.state);
  return made;
exception when unique_violation then
  declare
    broken text;
  begin
    get stacked diagnostics broken = constraint_name;
    if broken = any('{gen_durable_pkey,gen_durable_ledger_pkey}') then
      perform _gd_refuse_ids('gen_durable');
    end if;
    raise;
  end;
end
$$;
