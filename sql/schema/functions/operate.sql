-- What operators do with one instance, and with a queue. One function decides for all who do something: _gd_act. Names inside the
-- quotes are found in this schema alone, and written as _gd_move says.

-- The entry of what an operator has done. A function by itself: what has no history needs no rights to the ledger. In plpgsql,
-- which keeps its plan. What stands there under the same number is of an instance that has gone.
create function :"schema"._gd_enter_act(
  id bigint, seq bigint, at timestamptz, version int, what text, from_step text, to_step text, attempt int, token text, by text,
  wake_reason text, reason text, metadata jsonb, state jsonb)
returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_column
begin
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, token, by, wake_reason,
    reason, metadata, state)
  values (_gd_enter_act.id, _gd_enter_act.seq, _gd_enter_act.at, _gd_enter_act.version, _gd_enter_act.what, _gd_enter_act.from_step,
    _gd_enter_act.to_step, _gd_enter_act.attempt, _gd_enter_act.token, _gd_enter_act.by, _gd_enter_act.wake_reason,
    _gd_enter_act.reason, _gd_enter_act.metadata, _gd_enter_act.state)
  on conflict on constraint gen_durable_ledger_pkey do update
  set (at, fsm_version, outcome, from_step, to_step, attempt, token, by, wake_reason, reason, metadata, state)
    = row (excluded.at, excluded.fsm_version, excluded.outcome, excluded.from_step, excluded.to_step, excluded.attempt,
           excluded.token, excluded.by, excluded.wake_reason, excluded.reason, excluded.metadata, excluded.state);
end
$$;

-- In which statuses an instance is for what an operator does.
create function :"schema"._gd_act_statuses(what text) returns text[]
language sql immutable
begin atomic
  select case when _gd_act_statuses.what = 'retry' then array['failed'] when _gd_act_statuses.what = 'run_now' then array['runnable']
              when _gd_act_statuses.what = 'stop' then array['runnable', 'executing', 'awaiting_signal']
              when _gd_act_statuses.what in ('move', 'upgrade', 'discard', 'replace')
              then array['runnable', 'awaiting_signal', 'failed']
              when _gd_act_statuses.what = 'erase' then array['runnable', 'awaiting_signal', 'done', 'failed'] end;
end;

-- Does something with one instance, or tells why not. Its arguments have been checked. wait: for whoever has locked the row, or
-- inserts its unique key, as long as lock_timeout lets it.
-- what: retry (a failed one is due, or rests, again; its inputs are as they were), stop (one that has not ended fails; of one
-- that executes, the lease is taken away: its outcome does not apply then), run_now (one that is due later is due), move (one
-- that does not execute and is not done gets another queue or priority; null: as it is), upgrade (the same goes to to_version
-- of its machine, at to_step, with the payload as its state, if there is one: whoever asks has decoded its state, as it was at at_seq. It
-- waits as it did, so what rests goes to where it rests, and what runs to where it runs. It gets the history of that version, if that
-- keeps more), discard (of the same, the signal with that number leaves the inbox, as if a
-- step had consumed it), replace (it gets the payload, and the instance wakes if it waits for its name).
-- A stranger that it waits for may take its unique key: 23505 then.
-- answer: done; same (nothing was to be changed), no_such_target, no_such_signal, conflict (its status, seq or step does not fit), taken
-- (another has its unique key), locked; without wait also unsure (it may have to wait for its unique key). detail: the sentence
-- of what is refused. id, status and seq are the row's, behind this: of one that is runnable, gd_announce is to follow.
-- executed: it was executing.
create function :"schema"._gd_act(
  what text, target bigint, key bytea, to_queue text, to_priority smallint, reason text, by text, wait boolean,
  to_version int default null, to_step text default null, at_seq bigint default null, signal bigint default null,
  payload jsonb default null,
  out answer text, out id bigint, out status text, out seq bigint, out executed boolean, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_column
declare
  which bigint := target;
  hold record;
  here record;  -- the row
  there record; -- as it arrives at its step
  held record;  -- the signal
  new_status text;
  called boolean; -- the signal is a reason to wake
  woken boolean;
  other bigint;
  keeps smallint; -- the history that an upgrade leads to
  fits text[] := _gd_act_statuses(what);
  trusted text := coalesce(current_setting('gd.trusted', true), '');
begin
  executed := false;
  if key is not null then
    select h.holder, h.held into hold from _gd_hold_key(key, wait) h;
    which := hold.holder;
    if not hold.held then
      id := which;
      answer := case when which is null then 'no_such_target' else 'locked' end;
      detail := pg_catalog.format(case when which is null then 'there is no instance %s'
                                       else 'target: one after the other is the instance %s' end, _gd_named(null, key));
      return;
    end if;
  end if;
  id := which;

  -- Without its lock: who asks again and again must not keep a row that executes from its outcome, or from being reaped.
  select g.status::text as status, g.step, g.seq into here from gen_durable g where g.id = which;
  if found and not (here.status = 'executing' and not here.status = any(fits)) then
    if wait then
      perform from gen_durable g where g.id = which for no key update;
    end if;
    select g.fsm, g.fsm_version, g.status::text as status, g.step, g.seq, g.queue, g.priority, g.locked_by, g.eligible_at,
      g.awaits, g.awaits_also, g.wake_reason, g.unique_key, g.unique_scope::text[] as unique_scope
    into here
    from gen_durable g
    where g.id = which
    for no key update skip locked;
    if not found then
      perform from gen_durable g where g.id = which;
      if found then
        answer := 'locked';
        detail := _gd_held_text(which);
        return;
      end if;
    end if;
  end if;
  if here.status is null then
    answer := 'no_such_target';
    detail := _gd_gone_text(target, key);
    return;
  end if;
  status := here.status;
  seq := here.seq;
  executed := here.status = 'executing';
  if not here.status = any(fits) then
    answer := 'conflict';
    detail := pg_catalog.format('%s: instance %s: expected %s, got %s at %s, seq %s', what, which,
                     pg_catalog.array_to_string(fits, '|'), here.status, left(here.step, 1025), here.seq);
    return;
  end if;
  if what = 'run_now' and here.eligible_at <= clock_timestamp()
     or what = 'move' and coalesce(to_queue, here.queue) = here.queue and coalesce(to_priority, here.priority) = here.priority
  then
    answer := 'same';
    return;
  end if;

  select null::text as name, null::text as dedup_key into held;
  if what in ('discard', 'replace') then
    -- Whoever holds it without the instance is a stranger, and is waited for by nobody: the instance's lock would wait with us.
    select s.name, s.dedup_key into held
    from gen_durable_signals s
    where s.id = signal and s.target_id = which and s.consumed_at is null
    for update skip locked;
    if not found then
      perform from gen_durable_signals s where s.id = signal and s.target_id = which and s.consumed_at is null;
      if found then
        answer := 'locked';
        detail := pg_catalog.format('signal: a transaction holds signal %s of instance %s: try again', signal, which);
        return;
      end if;
      answer := 'no_such_signal';
      detail := pg_catalog.format('signal: instance %s has none with the number %s in its inbox', which, coalesce(signal::text, 'null'));
      return;
    end if;
  end if;

  -- Where no function runs it rests, as it did.
  if what = 'retry' then
    select a.status::text as status, a.awaits, a.deadline into there from _gd_arrival(here.fsm, here.fsm_version, here.step) a;
  elsif what = 'upgrade' then
    select a.status::text as status, a.awaits, a.deadline into there from _gd_arrival(here.fsm, to_version, to_step) a;
    select nullif(m.history, 0) into keeps from gen_durable_machines m where m.fsm = here.fsm and m.version = to_version;
    detail := case
      when here.seq <> at_seq then pg_catalog.format('seq: instance %s: expected %s, at which its state was decoded, got %s', which,
        at_seq, here.seq)
      when there.status = 'done' then pg_catalog.format('step: instance %s: expected a step of %s v%s that goes on, got %s', which,
        left(here.fsm, 255), to_version, left(to_step, 255))
      -- The machine of the older version need not be known.
      when here.status <> 'failed' and there.status <> case
        when here.awaits = '' then 'awaiting_signal'
        else (select a.status::text from _gd_arrival(here.fsm, here.fsm_version, here.step) a) end
      then pg_catalog.format('step: instance %s: expected a step of %s v%s that %s, as %s does, got %s', which,
        left(here.fsm, 255), to_version, case when there.status = 'awaiting_signal' then 'runs' else 'rests' end,
        left(here.step, 255), left(to_step, 255)) end;
    if detail is not null then
      answer := 'conflict';
      return;
    end if;
  else
    select null::text as status, null::text as awaits, null::timestamptz as deadline into there;
  end if;
  -- As by a signal: the first reason stays, and one whose unique key another may have is owed its wake-up.
  called := (what = 'replace' and here.status = 'awaiting_signal' and here.wake_reason is null
    and (held.name = here.awaits or held.name = any(here.awaits_also))) is true;
  woken := called
    and (here.unique_key is not null and 'runnable' = any(here.unique_scope) and not here.status = any(here.unique_scope)) is not true;
  new_status := case what when 'stop' then 'failed'
                          when 'retry' then case when there.status = 'awaiting_signal' then there.status else 'runnable' end
                          when 'replace' then case when woken then 'runnable' else here.status end
                          else here.status end;
  if here.unique_key is not null and new_status = any(here.unique_scope) and not here.status = any(here.unique_scope) then
    select o.id into other from gen_durable o where o.unique_guard = here.unique_key;
    if found or not wait then
      answer := case when found then 'taken' else 'unsure' end;
      detail := 'unique_key: instance ' || other::text || ' has it';
      return;
    end if;
  end if;

  if what = 'replace' then
    perform set_config('gd.trusted', 'json', true); -- it has been checked
    update gen_durable_signals s set payload = _gd_act.payload where s.id = signal;
  elsif held.dedup_key is not null then
    update gen_durable_signals s set consumed_at = clock_timestamp(), payload = '{}' where s.id = signal;
  elsif held.name is not null then
    delete from gen_durable_signals s where s.id = signal;
  end if;
  if held.name is not null and not found then
    raise exception 'signal: a trigger lets no change of signal % through', signal using errcode = 'P0001';
  end if;
  perform set_config('gd.trusted', case trusted when 'all' then 'json' else trusted end, true);
  with changed as (
    update gen_durable g
    set status = new_status::gen_durable_status, seq = g.seq + 1,
        unique_guard = case when g.unique_key is not null and new_status = any(g.unique_scope::text[]) then g.unique_key end,
        failed_id = case when new_status = 'failed' then g.id end,
        fsm_version = case when what = 'upgrade' then to_version else g.fsm_version end,
        step = case when what = 'upgrade' then to_step else g.step end,
        state = case when what = 'upgrade' then coalesce(payload, g.state) else g.state end,
        history = greatest(g.history, keeps),
        ledger_step = case when what = 'upgrade' and greatest(g.history, keeps) > 0 then to_step else g.ledger_step end,
        queue = case when what = 'move' then coalesce(to_queue, g.queue) else g.queue end,
        priority = case when what = 'move' then coalesce(to_priority, g.priority) else g.priority end,
        attempt = case when what = 'retry' then 0 else g.attempt end,
        crashes = case when what = 'retry' then 0 else g.crashes end,
        excused = case when what = 'retry' then null else g.excused end,
        trials = case when what = 'retry' then 0 else g.trials end,
        last_error = case when what = 'stop' then coalesce(reason, 'stopped by ' || by) else g.last_error end,
        eligible_at = case when what in ('retry', 'run_now') or woken then clock_timestamp() else g.eligible_at end,
        wake_reason = case when called then 'signal' else g.wake_reason end,
        awaits = case when what = 'stop' or woken then null when what = 'retry' then there.awaits else g.awaits end,
        awaits_also = case when what in ('stop', 'retry') or woken then null else g.awaits_also end,
        deadline = case when new_status <> 'awaiting_signal' or there.status is distinct from 'awaiting_signal' then g.deadline
                        when what = 'retry' or there.deadline is not null then coalesce(g.deadline, there.deadline) end,
        locked_by = case when what = 'stop' then null else g.locked_by end,
        lease_expires_at = case when what = 'stop' then null else g.lease_expires_at end,
        expires_at = case what when 'stop' then _gd_expiry(here.fsm, here.fsm_version, text 'failed', here.unique_scope)
                               when 'retry' then null else g.expires_at end,
        updated_at = clock_timestamp()
    where g.id = which
    returning g.id, g.seq, g.updated_at, g.fsm_version, g.step, g.attempt, g.wake_reason, g.history, g.queue, g.priority,
      case when g.history = 2 then g.state end as state
  ), entered as materialized (
    select _gd_enter_act(c.id, c.seq, c.updated_at, c.fsm_version, what, here.step, c.step, c.attempt, here.locked_by, by,
      c.wake_reason, reason,
      case what when 'move' then pg_catalog.jsonb_build_object('queue', c.queue, 'priority', c.priority)
                when 'upgrade' then pg_catalog.jsonb_build_object('from_version', here.fsm_version)
                else case when held.name is not null
                  then pg_catalog.jsonb_build_object('signal', signal, 'name', left(held.name, 255)) end end, c.state)
    from changed c
    where c.history > 0
  )
  select c.seq into seq from changed c left join entered on true;
  if not found then
    raise exception 'target: a trigger lets no update of instance % through', which using errcode = 'P0001';
  end if;
  perform set_config('gd.trusted', trusted, true);
  answer := 'done';
  status := new_status;
end
$$;

-- What is wrong with what an operator asks for, or null.
create function :"schema"._gd_act_fault(what text, queue text, priority int, reason text, by text) returns text
language sql stable
begin atomic
  select coalesce(
    case when _gd_act_fault.queue is not null then :"schema"._gd_name_fault('queue', _gd_act_fault.queue, 255) end,
    case when _gd_act_fault.priority not between -32768 and 32767
         then 'priority: expected -32768 to 32767, got ' || _gd_act_fault.priority end,
    case when _gd_act_fault.what = 'move' and _gd_act_fault.queue is null and _gd_act_fault.priority is null
         then 'move: expected a queue or a priority' end,
    :"schema"._gd_mover_fault(_gd_act_fault.reason, _gd_act_fault.by));
end;

-- As _gd_act, and _gd_erase, named by an id or by a key, waiting for strangers; what is refused is an error: 22023 for arguments, P0002 for an
-- instance that is not there, MV003 where its status does not fit, MV006 where another has its unique key. by: null is the user.
create function :"schema"._gd_operate(
  what text, target bigint, key text, key_bytes bytea, queue text, priority int, reason text, by text,
  signal bigint default null, payload jsonb default null,
  out id bigint, out seq bigint, out status text, out executed boolean)
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
  named bytea := _gd_address('target', target, _gd_operate.key, key_bytes);
  who text := coalesce(_gd_operate.by, session_user::text);
  fault text := case
    when _gd_operate.what in ('retry', 'stop', 'run_now', 'move', 'discard', 'replace', 'erase')
    then coalesce(_gd_act_fault(_gd_operate.what, _gd_operate.queue, _gd_operate.priority, _gd_operate.reason, who),
      case when _gd_operate.what in ('discard', 'replace') and _gd_operate.signal is null then 'signal: expected a number, got null' end,
      case when _gd_operate.what = 'erase' and pg_catalog.btrim(coalesce(_gd_operate.reason, ''), E' \t\r\n') = ''
           then 'reason: expected why it is erased, which is all that is left of it, got nothing' end,
      case when _gd_operate.what = 'replace' then case
        when _gd_operate.payload is null then 'payload: expected JSON, got null'
        else _gd_json_fault('payload', _gd_operate.payload) end end)
    else pg_catalog.format('what: expected retry|stop|run_now|move|discard|replace|erase, got %s',
      coalesce(left(_gd_operate.what, 255), 'null')) end;
  a record;
  told text;
  violated text;
begin
  select null::text as detail into a;
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception '%: expected isolation level read committed, got %', _gd_operate.what,
      current_setting('transaction_isolation') using errcode = '25000';
  end if;
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  if _gd_operate.what = 'erase' then
    select x.* into a from _gd_erase(target, named, _gd_operate.reason, who) x;
  else
    select x.* into a
    from _gd_act(_gd_operate.what, target, named, _gd_operate.queue, _gd_operate.priority::smallint, _gd_operate.reason, who, true,
      signal => _gd_operate.signal, payload => _gd_operate.payload) x;
  end if;
  if a.answer not in ('done', 'same') then
    raise exception using message = a.detail, errcode = case a.answer
      when 'conflict' then 'MV003' when 'taken' then 'MV006' when 'locked' then '55P03' else 'P0002' end;
  end if;
  id := a.id;
  seq := a.seq;
  status := a.status;
  executed := a.executed;
  if a.status = 'runnable' then
    perform gd_announce();
  end if;
exception when lock_not_available then
  get stacked diagnostics told = message_text;
  raise exception using errcode = '55P03', message = case
    when told = a.detail then told
    else _gd_held_text(coalesce(_gd_operate.target, (select g.id from gen_durable g where g.unique_guard = named))) end;
when unique_violation then -- a stranger has just inserted its key
  get stacked diagnostics violated = constraint_name;
  if violated <> 'gen_durable_unique' then
    raise;
  end if;
  raise exception 'unique_key: another instance has it' using errcode = 'MV006';
end
$$;

-- A failed instance is due again, with its inputs as they were: its seq now. It is named by its id, or by the key that it has.
create function :"schema".gd_retry(
  target bigint default null, reason text default null, by text default null, key text default null,
  key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('retry', gd_retry.target, gd_retry.key, gd_retry.key_bytes, null, null, gd_retry.reason,
    gd_retry.by) o;
end;

-- An instance that has not ended fails, for that reason: its seq now. If it executes, its lease is taken away: what its step
-- returns does not apply.
create function :"schema".gd_stop(
  target bigint default null, reason text default null, by text default null, key text default null,
  key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('stop', gd_stop.target, gd_stop.key, gd_stop.key_bytes, null, null, gd_stop.reason,
    gd_stop.by) o;
end;

-- An instance that is to begin later is due now: its seq now.
create function :"schema".gd_run_now(
  target bigint default null, reason text default null, by text default null, key text default null,
  key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('run_now', gd_run_now.target, gd_run_now.key, gd_run_now.key_bytes, null, null,
    gd_run_now.reason, gd_run_now.by) o;
end;

-- An instance that does not execute gets another queue, or another priority: its seq now. The queue as in gd_pause.
create function :"schema".gd_requeue(
  target bigint default null, queue text default null, priority int default null, reason text default null,
  by text default null, key text default null, key_bytes bytea default null, force boolean default false) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('move', gd_requeue.target, gd_requeue.key, gd_requeue.key_bytes,
    :"schema"._gd_known_queue(gd_requeue.queue, gd_requeue.force), gd_requeue.priority, gd_requeue.reason, gd_requeue.by) o;
end;

-- A signal leaves the inbox of an instance that does not execute and is not done, as if a step had consumed it: a dedup key is
-- remembered. The instance's seq now. gdctl inbox tells the numbers of signals.
create function :"schema".gd_discard(
  target bigint default null, signal bigint default null, reason text default null, by text default null,
  key text default null, key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('discard', gd_discard.target, gd_discard.key, gd_discard.key_bytes, null, null, gd_discard.reason,
    gd_discard.by, gd_discard.signal) o;
end;

-- The same gets another payload, and stays where it is. An instance that waits for its name wakes. The instance's seq now.
create function :"schema".gd_replace(
  target bigint default null, signal bigint default null, payload jsonb default null, reason text default null,
  by text default null, key text default null, key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('replace', gd_replace.target, gd_replace.key, gd_replace.key_bytes, null, null, gd_replace.reason,
    gd_replace.by, gd_replace.signal, gd_replace.payload) o;
end;

-- Lets nothing begin in a queue, on all nodes, until gd_resume. A queue that is paused stays so, with who and why told anew.
-- One that nobody serves, and nothing is in, is refused (MV008), unless force says that it is meant.
create function :"schema".gd_pause(queue text, reason text default null, by text default null, force boolean default false)
returns void
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
declare
  who text := coalesce(gd_pause.by, session_user::text);
  fault text := coalesce(_gd_name_fault('queue', gd_pause.queue, 255), _gd_mover_fault(gd_pause.reason, who));
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  insert into gen_durable_queues (queue, paused_at, paused_by, reason)
  values (_gd_known_queue(gd_pause.queue, gd_pause.force), clock_timestamp(), who, gd_pause.reason)
  on conflict on constraint gen_durable_queues_pkey do update
  set paused_at = coalesce(gen_durable_queues.paused_at, excluded.paused_at), paused_by = excluded.paused_by,
      reason = excluded.reason;
end
$$;

-- What is due in a queue begins again: whether it was paused. One that was not, and that nobody has, as gd_pause.
create function :"schema".gd_resume(queue text, force boolean default false) returns boolean
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
begin
  delete from gen_durable_queues q where q.queue = gd_resume.queue and q.paused_at is not null;
  if found then
    perform gd_announce();
    return true;
  end if;
  perform _gd_known_queue(gd_resume.queue, gd_resume.force);
  return false;
end
$$;
