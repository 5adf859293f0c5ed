-- Rows that await several names await the first of them from now on.
-- Sends a signal: accepted, duplicate, no_such_target, target_finished or inbox_full. Waits for the target's row, as
-- long as lock_timeout lets it, and looks at it in a statement of its own, whose snapshot is younger than the lock. A
-- target whose unique key would be taken again by its wake-up stays parked, its wake_reason set: an engine wakes it.
create or replace function :"schema".gd_signal_id(
  target bigint, name text, payload jsonb default '{}', dedup_key text default null) returns text
language sql
set search_path = pg_catalog, pg_temp
begin atomic
  select :"schema".gd_refuse('25000', 'gd_signal: expected isolation level read committed, got '
    || current_setting('transaction_isolation'))
  where current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');

  select :"schema".gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema".gd_name_fault('signal name', gd_signal_id.name, 255),
    case when gd_signal_id.dedup_key is not null
         then :"schema".gd_name_fault('dedup key', gd_signal_id.dedup_key, 1024) end,
    :"schema".gd_json_fault('payload', gd_signal_id.payload)) as fault) f
  where f.fault is not null;

  select g.id from :"schema".gen_durable g where g.id = gd_signal_id.target for no key update;

  with entry as materialized (
    select g.id, g.status, g.awaits, g.status in ('done', 'failed') as finished,
      (select count(*) from (
        select from :"schema".signals s
        where s.target_id = g.id and s.consumed_at is null
        limit 1000) inbox) >= 1000 as full
    from :"schema".gen_durable g
    where g.id = gd_signal_id.target
  ), accepted as (
    insert into :"schema".signals (target_id, name, payload, dedup_key)
    select e.id, gd_signal_id.name, gd_signal_id.payload, gd_signal_id.dedup_key
    from entry e
    where not e.finished and not e.full
    on conflict (target_id, dedup_key) do nothing
    returning target_id
  ), woken as (
    update :"schema".gen_durable g
    set (status, awaits, eligible_at) = (
          select case when w.unsure then g.status else 'runnable' end,
            case when w.unsure then g.awaits end,
            case when w.unsure then g.eligible_at else clock_timestamp() end
          from (select g.unique_key is not null and 'runnable' = any(g.unique_scope)
                       and not 'awaiting_signal' = any(g.unique_scope) as unsure) w),
        wake_reason = 'signal', updated_at = clock_timestamp()
    where g.id in (select a.target_id from accepted a) and g.status = 'awaiting_signal' and g.awaits = gd_signal_id.name
      and not (g.wake_reason is not null and g.unique_key is not null and 'runnable' = any(g.unique_scope)
               and not 'awaiting_signal' = any(g.unique_scope)) -- its wake-up is owed already: the first reason stays
  )
  select case
    when not exists (select from entry) then 'no_such_target'
    when exists (select from accepted) then 'accepted'
    when gd_signal_id.dedup_key is not null and exists (
      select from :"schema".signals s
      where s.target_id = gd_signal_id.target and s.dedup_key = gd_signal_id.dedup_key) then 'duplicate'
    when (select e.finished from entry e) then 'target_finished'
    when (select e.full from entry e) then 'inbox_full'
    else 'duplicate' end;
end;

-- Moves an instance, or tells why not. Its arguments have been checked; null in from_step, from_seq and new_state: whatever
-- it is. wait: for whoever has locked the row, or inserts its unique key, as long as lock_timeout lets it.
-- answer: moved, no_such_target, conflict, unknown_step, not_allowed, taken (another has its unique key); without wait also
-- locked, and unsure (it may have to wait for its unique key). detail: the sentence of what is refused. status, step and seq
-- are the row's, behind this; so is queue, which is null unless the row is runnable.
-- Names are found in this schema, behind PostgreSQL's own, but before those that do not fit as well. Whoever may create functions
-- and operators in it could have them run by all who move instances: so types fit exactly (text, no enum), and functions of
-- any type are named in full.
create or replace function :"schema".gd_move(
  target bigint, to_step text, from_step text, from_seq bigint, new_state jsonb, metadata jsonb, reason text, by text,
  wait boolean, out answer text, out status text, out step text, out seq bigint, out queue text, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_column
declare
  here record;   -- the row
  known record;  -- its machine
  there record;  -- as it arrives
  holder bigint;
  checks text := coalesce(current_setting('gd.checks_json', true), '');
begin
  -- Without its lock: who asks again and again must not keep a row that executes from its outcome, or from being reaped.
  select g.status, g.step, g.seq into here from gen_durable g where g.id = target and g.status::text = 'executing';
  if found then
    answer := 'conflict';
    status := here.status;
    step := left(here.step, 1025);
    seq := here.seq;
    detail := gd_move_conflict(target, from_step, from_seq, status, step, seq);
    return;
  end if;

  if wait then
    perform from gen_durable g where g.id = target for no key update;
  end if;
  select g.fsm, g.fsm_version, g.status::text as status, g.step, g.seq, g.queue, g.unique_key,
    g.unique_scope::text[] as unique_scope
  into here
  from gen_durable g
  where g.id = target
  for no key update skip locked;
  if not found then
    answer := case when exists (select from gen_durable g where g.id = target) then 'locked' else 'no_such_target' end;
    detail := pg_catalog.format('target: there is no instance %s', coalesce(target::text, 'null'));
    return;
  end if;
  status := here.status;
  step := left(here.step, 1025);
  seq := here.seq;
  queue := case when here.status = 'runnable' then left(here.queue, 1025) end;

  select k.steps, k.outside is not null as told, case when jsonb_typeof(k.outside -> here.step -> text 'to') = 'array'
         then k.outside -> here.step -> text 'to' else '[]' end as open
  into known
  from gen_durable_machines k
  where k.fsm = here.fsm and k.version = here.fsm_version;
  if not from_step = any(known.steps) then
    answer := 'unknown_step';
    detail := pg_catalog.format('from: expected one of %s of %s v%s, got %s', pg_catalog.array_to_string(known.steps, '|'),
                     here.fsm, here.fsm_version, from_step);
    return;
  end if;
  if here.status not in ('runnable', 'awaiting_signal') or here.step <> from_step or here.seq <> from_seq then
    answer := 'conflict';
    detail := gd_move_conflict(target, from_step, from_seq, status, step, seq);
    return;
  end if;

  if not to_step = any(known.steps) then
    answer := 'unknown_step';
    detail := pg_catalog.format('to: expected one of %s of %s v%s, got %s', pg_catalog.array_to_string(known.steps, '|'),
                     here.fsm, here.fsm_version, to_step);
    return;
  end if;
  if (known.open ? to_step) is not true then
    answer := 'not_allowed';
    detail := case
      when known.told is not true
      then pg_catalog.format('to: no node has made known where %s v%s may be moved from outside', here.fsm, here.fsm_version)
      when known.open = '[]'
      then pg_catalog.format('to: %s v%s lets nobody outside move it from %s', here.fsm, here.fsm_version, step)
      else pg_catalog.format('to: expected one of %s from %s of %s v%s, got %s',
                  (select string_agg(x, '|' order by x collate "C") from jsonb_array_elements_text(known.open) x), step,
                  here.fsm, here.fsm_version, to_step) end;
    return;
  end if;

  select a.* into there from gd_arrival(here.fsm, here.fsm_version, to_step) a;
  if here.unique_key is not null and there.status::text = any(here.unique_scope)
     and not here.status = any(here.unique_scope) then
    select o.id into holder from gen_durable o where o.unique_guard = here.unique_key;
    if found or not wait then
      answer := case when found then 'taken' else 'unsure' end;
      detail := 'unique_key: instance ' || holder::text || ' has it';
      return;
    end if;
  end if;

  -- A state that was there before has been checked, by whoever's limits.
  if new_state is null then
    perform set_config('gd.checks_json', 'on', true);
  end if;
  with moved as (
    update gen_durable g
    set status = there.status, step = to_step, state = coalesce(new_state, g.state), seq = g.seq + 1,
        ledger_step = case when g.history > 0 then to_step end,
        result = coalesce(there.result, g.result),
        attempt = 0, crashes = 0, trials = 0, last_error = null,
        eligible_at = case when there.status::text = 'runnable' then clock_timestamp() else g.eligible_at end,
        awaits = there.awaits, deadline = there.deadline, wake_reason = null, updated_at = clock_timestamp()
    where g.id = target
    returning g.id, g.status, g.step, g.seq, g.queue, g.updated_at, g.fsm_version, g.history,
      case when g.history = 2 then g.state end as state
  ), entered as materialized (
    select gd_enter_transition(m.id, m.seq, m.updated_at, m.fsm_version, here.step, m.step, by, reason, metadata, m.state)
    from moved m
    where m.history > 0
  )
  select 'moved', m.status, m.step, m.seq, case when m.status::text = 'runnable' then left(m.queue, 1025) end
  into answer, status, step, seq, queue
  from moved m
  left join entered on true;
  if not found then
    raise exception 'target: a trigger lets no update of instance % through', target using errcode = 'P0001';
  end if;
  perform set_config('gd.checks_json', checks, true);
end
$$;

-- Puts an instance that does not execute back to the step and the state of an entry, and tells its seq and status now. Consumed
-- signals stay consumed, the others in its inbox. Waits for its row, as long as lock_timeout lets it.
create or replace function :"schema".gd_put_back(
  target bigint, key bytea, seq bigint, reason text, by text, out seq_now bigint, out status_now text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := gd_mover_fault(gd_put_back.reason, gd_put_back.by);
  was record;
  entry gen_durable_ledger;
  arrival record;
  holder bigint;
  made gen_durable;
  which bigint;
  violated text;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'gd_rewind: expected isolation level read committed, got %', current_setting('transaction_isolation')
      using errcode = '25000';
  end if;
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;

  which := case when key is null then gd_put_back.target else gd_hold(key) end;
  select g.fsm, g.fsm_version, g.step, g.status::text as status, g.seq, g.unique_key, g.unique_scope::text[] as unique_scope
  into was
  from gen_durable g
  where g.id = which
  for no key update;
  if not found then
    raise exception 'there is no instance %', gd_named(gd_put_back.target, key) using errcode = 'P0002';
  end if;
  if was.status = 'executing' then
    raise exception 'instance % is executing, step %, seq %', which, was.step, was.seq using errcode = 'MV003';
  end if;

  entry := gd_entry(which, was.fsm, gd_put_back.seq);
  if entry.fsm_version <> was.fsm_version then
    raise exception 'entry % is of % v%, and instance % is of v%', gd_put_back.seq, was.fsm, entry.fsm_version, which,
      was.fsm_version using errcode = 'MV004';
  end if;
  select a.* into arrival from gd_arrival(was.fsm, was.fsm_version, entry.to_step) a;
  select o.id into holder
  from gen_durable o
  where o.unique_guard = was.unique_key and o.id <> which and arrival.status::text = any(was.unique_scope);
  if found then
    raise exception 'unique_key: instance % has it', holder using errcode = 'MV006';
  end if;

  update gen_durable g
  set status = arrival.status, seq = g.seq + 1, step = entry.to_step, ledger_step = entry.to_step, state = entry.state,
      result = arrival.result, last_error = null, attempt = 0, crashes = 0, trials = 0, awaits = arrival.awaits,
      deadline = arrival.deadline, wake_reason = null, eligible_at = clock_timestamp(), locked_by = null,
      lease_expires_at = null, updated_at = clock_timestamp()
  where g.id = which
  returning g.* into made;
  if not found then
    raise exception 'a trigger lets no update of instance % through', which using errcode = 'P0001';
  end if;
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, by, reason, metadata,
    state)
  values (made.id, made.seq, made.updated_at, made.fsm_version, 'rewind', was.step, made.step, made.attempt, gd_put_back.by,
    gd_put_back.reason, pg_catalog.jsonb_build_object('seq', gd_put_back.seq), made.state);
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

drop function :"schema".gd_status(bigint, text, bytea);

-- One instance, as it is, named by its id, or by the key that it has; with its key as it is shown. No row: there is none.
create function :"schema".gd_status(
  target bigint default null, key text default null, key_bytes bytea default null)
returns table (
  id bigint, fsm text, version int, step text, status text, state jsonb, result jsonb, awaits text, queue text,
  priority smallint, attempt int, last_error text, locked_by text, wake_reason text, eligible_at timestamptz,
  deadline timestamptz, lease_expires_at timestamptz, inserted_at timestamptz, updated_at timestamptz, inbox bigint,
  partition_key text, unique_key bytea, unique_key_text text)
language sql stable
begin atomic
  select s.*, :"schema".gd_key_text(s.unique_key)
  from (
    select :"schema".gd_address('target', gd_status.target, gd_status.key, gd_status.key_bytes) as key
    offset 0) a
  cross join lateral :"schema".gd_status_id(
    case when a.key is null then gd_status.target
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end) s;
end;

drop function :"schema".gd_also_awaited(jsonb);
drop function :"schema".gd_announce();

alter table :"schema".gen_durable drop column awaits_also;

comment on table :"schema".gen_durable is 'gen_durable schema 17, works with libraries from 3';
