-- One instance that has to go, for the sake of whom its data are about. Names inside the quotes are found in this schema alone, and
-- written as _gd_move says.

-- Deletes an instance with its signals, those that were consumed too, and its history, all of it or nothing; of others, what they have
-- of it stays. What is left is its row of gen_durable_erased. One that executes has to be stopped first. Waits as _gd_act does for
-- whoever has locked the row, or has a share of it: who inserts a signal, or a row of his own that refers to it.
-- answer: done; no_such_target, also of one that was erased before, conflict (it executes), locked (of its own, too). status: erased.
-- seq: the row's last one. detail: as of _gd_act.
create function :"schema"._gd_erase(
  target bigint, key bytea, reason text, by text,
  out answer text, out id bigint, out status text, out seq bigint, out executed boolean, out detail text)
language plpgsql
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_column
declare
  which bigint := target;
  here record;
  signals bigint; -- that are locked, and entries of its history
  entries bigint;
  fits text[] := _gd_act_statuses('erase');
  trusted text := coalesce(current_setting('gd.trusted', true), '');
  relation text;
  violated text;
begin
  executed := false;
  -- For update at once: who locks it for less first, and for more then, and a stranger with a share of it that does the same, wait for
  -- each other. One that has left its key while it was being locked is let be, as in _gd_hold_key.
  for tries in 1 .. 5 loop
    if key is not null then
      select g.id into which from gen_durable g where g.unique_guard = key;
    end if;
    -- Without its lock, as in _gd_act.
    select g.fsm, g.fsm_version, g.status::text as status, g.step, g.seq into here from gen_durable g where g.id = which;
    exit when not found or here.status = 'executing';
    select g.fsm, g.fsm_version, g.status::text as status, g.step, g.seq into here
    from gen_durable g
    where g.id = which and (key is null or g.unique_guard = key)
    for update;
    exit when found or key is null;
  end loop;
  id := which;
  if here.status is null then
    answer := case when key is null or which is null then 'no_such_target' else 'locked' end;
    detail := case when key is null or which is null then _gd_gone_text(target, key)
                   else pg_catalog.format('target: one after the other is the instance %s', _gd_named(null, key)) end;
    return;
  end if;
  status := here.status;
  seq := here.seq;
  if not here.status = any(fits) then
    executed := true;
    answer := 'conflict';
    detail := pg_catalog.format('erase: instance %s: expected %s, got %s at %s, seq %s: stop it first (gdctl stop %s)', which,
      pg_catalog.array_to_string(fits, '|'), here.status, left(here.step, 1025), here.seq, which);
    return;
  end if;

  -- As for a signal in _gd_act: whoever holds some of it without the instance is a stranger, and is waited for by nobody.
  with inbox as materialized (
    select s.id from gen_durable_signals s where s.target_id = which for update skip locked
  ), history as materialized (
    select l.seq from gen_durable_ledger l where l.instance_id = which for update skip locked
  )
  select (select pg_catalog.count(*) from inbox), (select pg_catalog.count(*) from history) into signals, entries;
  if signals < (select pg_catalog.count(*) from gen_durable_signals s where s.target_id = which)
    or entries < (select pg_catalog.count(*) from gen_durable_ledger l where l.instance_id = which) then
    answer := 'locked';
    detail := pg_catalog.format('target: a transaction holds signals, or entries of the history, of instance %s: try again', which);
    return;
  end if;

  -- Whatever its history says: what stands there under its number is to go. A number that was another's before is its own now.
  delete from gen_durable_ledger l where l.instance_id = which;
  insert into gen_durable_erased (instance_id, fsm, fsm_version, status, seq, at, by, reason)
  values (which, here.fsm, here.fsm_version, here.status, here.seq, clock_timestamp(), _gd_erase.by, _gd_erase.reason)
  on conflict on constraint gen_durable_erased_pkey do update
  set (fsm, fsm_version, status, seq, at, by, reason)
    = row (excluded.fsm, excluded.fsm_version, excluded.status, excluded.seq, excluded.at, excluded.by, excluded.reason);
  -- The trigger takes it out of gen_durable_due, in sessions of the library's, too: what is erased is rare.
  perform set_config('gd.trusted', case trusted when 'all' then 'json' else trusted end, true);
  begin
    delete from gen_durable g where g.id = which;
    if not found then
      raise exception 'target: a trigger lets no delete of instance % through', which using errcode = 'P0001';
    end if;
  exception when foreign_key_violation then
    get stacked diagnostics violated = constraint_name, relation = table_name;
    raise exception 'target: rows of % refer to instance %, or to what is its own (constraint %): nothing is erased before these are gone',
      relation, which, violated using errcode = '23503';
  end;
  perform set_config('gd.trusted', trusted, true);
  if exists (select from gen_durable_signals s where s.target_id = which)
    or exists (select from gen_durable_ledger l where l.instance_id = which) then
    raise exception 'target: a trigger keeps signals, or entries of the history, of instance %', which using errcode = 'P0001';
  end if;
  answer := 'done';
  status := 'erased';
end
$$;

-- An instance that does not execute is erased, with its signals and its history: its last seq. The reason is required, and stays, with
-- its number, its machine, who has done it and when.
create function :"schema".gd_erase(
  target bigint default null, reason text default null, by text default null, key text default null,
  key_bytes bytea default null) returns bigint
language sql
begin atomic
  select o.seq
  from :"schema"._gd_operate('erase', gd_erase.target, gd_erase.key, gd_erase.key_bytes, null, null, gd_erase.reason,
    gd_erase.by) o;
end;
