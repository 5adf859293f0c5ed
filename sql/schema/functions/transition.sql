-- Transitions from outside: whoever has the rights moves an instance from where its machine lets others do that. One function
-- does it for all callers, so that no two of them judge differently: _gd_move.

-- The sentence of a conflict.
create function :"schema"._gd_move_conflict(
  target bigint, from_step text, from_seq bigint, status text, step text, seq bigint) returns text
language sql immutable
begin atomic
  select format('target: instance %s: expected runnable or awaiting_signal%s%s, got %s at %s, seq %s', target,
                ' at ' || from_step, ', seq ' || from_seq, status, step, seq);
end;

-- The entry of a transition. A function by itself: who moves what has no history needs no rights to the ledger.
create function :"schema"._gd_enter_transition(
  id bigint, seq bigint, at timestamptz, version int, from_step text, to_step text, by text, reason text, metadata jsonb,
  state jsonb)
returns void
language sql
begin atomic
  insert into :"schema".gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, by,
    reason, metadata, state)
  values (_gd_enter_transition.id, _gd_enter_transition.seq, _gd_enter_transition.at, _gd_enter_transition.version, 'transition',
    _gd_enter_transition.from_step, _gd_enter_transition.to_step, 0, _gd_enter_transition.by, _gd_enter_transition.reason,
    _gd_enter_transition.metadata, _gd_enter_transition.state);
end;

-- Moves an instance, or tells why not. Its arguments have been checked; null in from_step, from_seq and new_state: whatever
-- it is. wait: for whoever has locked the row, or inserts its unique key, as long as lock_timeout lets it.
-- answer: moved, no_such_target, conflict, unknown_step, not_allowed, taken (another has its unique key); without wait also
-- locked, and unsure (it may have to wait for its unique key). detail: the sentence of what is refused. status, step and seq
-- are the row's, behind this; so is queue, which is null unless the row is runnable.
-- Names are found in this schema, behind PostgreSQL's own, but before those that do not fit as well. Whoever may create functions
-- and operators in it could have them run by all who move instances: so types fit exactly (text, no enum), and functions of
-- any type are named in full.
create function :"schema"._gd_move(
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
  trusted text := coalesce(current_setting('gd.trusted', true), '');
begin
  -- Without its lock: who asks again and again must not keep a row that executes from its outcome, or from being reaped.
  select g.status, g.step, g.seq into here from gen_durable g where g.id = target and g.status::text = 'executing';
  if found then
    answer := 'conflict';
    status := here.status;
    step := left(here.step, 1025);
    seq := here.seq;
    detail := _gd_move_conflict(target, from_step, from_seq, status, step, seq);
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
    detail := _gd_move_conflict(target, from_step, from_seq, status, step, seq);
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

  select a.* into there from _gd_arrival(here.fsm, here.fsm_version, to_step) a;
  if here.unique_key is not null and there.status::text = any(here.unique_scope)
     and not here.status = any(here.unique_scope) then
    select o.id into holder from gen_durable o where o.unique_guard = here.unique_key;
    if found or not wait then
      answer := case when found then 'taken' else 'unsure' end;
      detail := 'unique_key: instance ' || holder::text || ' has it';
      return;
    end if;
  end if;

  -- The state has been checked: a new one by who calls this, one that was there before by whoever's limits.
  perform set_config('gd.trusted', 'json', true);
  with moved as (
    update gen_durable g
    set status = there.status, failed_id = null,
        unique_guard = case when g.unique_key is not null and there.status::text = any(g.unique_scope::text[])
                            then g.unique_key end,
        step = to_step, state = coalesce(new_state, g.state), seq = g.seq + 1,
        ledger_step = case when g.history > 0 then to_step end,
        result = coalesce(there.result, g.result),
        attempt = 0, crashes = 0, excused = null, trials = 0, last_error = null,
        eligible_at = case when there.status::text = 'runnable' then clock_timestamp() else g.eligible_at end,
        awaits = there.awaits, awaits_also = null, deadline = there.deadline, wake_reason = null,
        expires_at = case when there.status::text = 'done'
          then _gd_expiry(here.fsm, here.fsm_version, text 'done', here.unique_scope) end,
        updated_at = clock_timestamp()
    where g.id = target
    returning g.id, g.status, g.step, g.seq, g.queue, g.updated_at, g.fsm_version, g.history,
      case when g.history = 2 then g.state end as state
  ), entered as materialized (
    select _gd_enter_transition(m.id, m.seq, m.updated_at, m.fsm_version, here.step, m.step, by, reason, metadata, m.state)
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
  perform set_config('gd.trusted', trusted, true);
  if status = 'runnable' then
    perform gd_announce();
  end if;
end
$$;

-- As _gd_move, of an instance that is named by its id or by its key; and if a stranger that it waits for takes its unique key,
-- that is told, too. answer, beside those of _gd_move: locked, also with wait, where one instance after the other has a key.
create function :"schema"._gd_move_named(
  target bigint, key bytea, to_step text, from_step text, from_seq bigint, new_state jsonb, metadata jsonb, reason text,
  by text, wait boolean, out answer text, out status text, out step text, out seq bigint, out queue text, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_column
declare
  which bigint := target;
  here record;
  violated text;
begin
  if key is not null then
    -- One that executes is not locked: see _gd_move.
    select g.id, g.status::text, left(g.step, 1025), g.seq
    into which, status, step, seq
    from gen_durable g
    where g.unique_guard = key and g.status::text = 'executing';
    if found then
      answer := 'conflict';
      detail := _gd_move_conflict(which, from_step, from_seq, status, step, seq);
      return;
    end if;
    select h.holder, h.held into here from _gd_hold_key(key, wait) h;
    which := here.holder;
    if not here.held then
      answer := case when which is null then 'no_such_target' else 'locked' end;
      detail := pg_catalog.format(case when which is null then 'target: there is no instance %s'
                                       else 'target: one after the other is the instance %s' end, _gd_named(null, key));
      return;
    end if;
  end if;
  if not wait then
    select m.* into answer, status, step, seq, queue, detail
    from _gd_move(which, to_step, from_step, from_seq, new_state, metadata, reason, by, false) m;
    return;
  end if;
  begin
    select m.* into answer, status, step, seq, queue, detail
    from _gd_move(which, to_step, from_step, from_seq, new_state, metadata, reason, by, true) m;
  exception when unique_violation then
    get stacked diagnostics violated = constraint_name;
    if violated <> 'gen_durable_unique' then
      raise;
    end if;
    select o.id into here
    from gen_durable g
    cross join lateral (select o.id from gen_durable o where o.unique_guard = g.unique_key offset 0) o
    where g.id = which;
    answer := case when found then 'taken' else 'locked' end;
    detail := coalesce('unique_key: instance ' || here.id::text || ' has it', 'unique_key: whoever took it has just left it');
  end;
end
$$;

-- Moves an instance to another step, from where its machine lets others do that, and returns its seq then: what is done with
-- it behind this is done in the caller's transaction. It is named by its id, or by the key that it has. Waits for the row, as
-- long as lock_timeout lets it. Refused: 22023 for arguments, P0002 for an instance that is not there, 42704 for a step that
-- its machine does not have, MV003 where it has moved meanwhile or executes, MV004 where the machine does not allow it, MV006
-- where another has its unique key.
create function :"schema".gd_transition(
  target bigint default null, to_step text default null, from_step text default null, seq bigint default null,
  state jsonb default null, metadata jsonb default null, reason text default null, by text default null,
  key text default null, key_bytes bytea default null) returns bigint
language sql
set search_path = pg_catalog, pg_temp
set row_security = off
begin atomic
  select :"schema"._gd_refuse('25000', 'gd_transition: expected isolation level read committed, got '
    || current_setting('transaction_isolation'))
  where current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');

  select :"schema"._gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema"._gd_name_fault('to', gd_transition.to_step, 255),
    case when gd_transition.from_step is not null
         then :"schema"._gd_name_fault('from', gd_transition.from_step, 255) end,
    case when gd_transition.seq < 0 then 'seq: expected 0 or more, got ' || gd_transition.seq end,
    case when gd_transition.state is not null then coalesce(
      :"schema"._gd_json_fault('state', gd_transition.state),
      case when jsonb_typeof(gd_transition.state) <> 'object' then 'state: $: expected object' end) end,
    case when gd_transition.metadata is not null then coalesce(
      :"schema"._gd_json_fault('metadata', gd_transition.metadata),
      case when octet_length(gd_transition.metadata::text) > 65536
           then 'metadata: expected at most 65536 bytes of JSON, got ' || octet_length(gd_transition.metadata::text) end) end,
    case when octet_length(gd_transition.reason) > 8192
         then 'reason: expected at most 8192 bytes, got ' || octet_length(gd_transition.reason) end,
    case when gd_transition.by is not null
         then :"schema"._gd_name_fault('by', gd_transition.by, 255) end) as fault) f
  where f.fault is not null;

  select case m.answer
    when 'moved' then m.seq
    else :"schema"._gd_refuse(
      case m.answer when 'conflict' then 'MV003' when 'not_allowed' then 'MV004' when 'unknown_step' then '42704'
                    when 'taken' then 'MV006' when 'locked' then '55P03' else 'P0002' end, m.detail) end
  from :"schema"._gd_move_named(
    gd_transition.target,
    :"schema"._gd_address('target', gd_transition.target, gd_transition.key, gd_transition.key_bytes), gd_transition.to_step,
    gd_transition.from_step, gd_transition.seq, gd_transition.state, gd_transition.metadata,
    gd_transition.reason, gd_transition.by, true) m;
end;
