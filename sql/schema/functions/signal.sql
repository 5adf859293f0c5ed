-- Whoever makes a row due draws an id, by which engines see, many times a second and for next to nothing, that there may be
-- something to pick: gen_durable's for what is inserted, that of signals for what is woken. So transitions and rewinds draw one
-- of signals as well.

-- Tells engines to look. Whoever lacks the right to the sequence does without: each poll finds what is due.
create function :"schema".gd_announce() returns void
language sql
begin atomic
  select nextval(s.sequence)
  from (select pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable_signals', 'id')::regclass as sequence) s
  where has_sequence_privilege(s.sequence, 'usage, update');
end;

-- A signal that was not stored, though there is room: another has its dedup key, or its id. In a snapshot of its own.
create function :"schema"._gd_not_stored(target bigint, dedup_key text) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform from gen_durable_signals s where s.target_id = target and s.dedup_key = _gd_not_stored.dedup_key;
  if not found then
    return _gd_refuse_ids('gen_durable_signals');
  end if;
  return 'duplicate';
end
$$;

-- Sends a signal: accepted, duplicate, no_such_target, target_finished or inbox_full. Waits for the target's row, as
-- long as lock_timeout lets it, and looks at it in a statement of its own, whose snapshot is younger than the lock. A
-- target whose unique key would be taken again by its wake-up stays parked, its wake_reason set: an engine wakes it.
create function :"schema"._gd_signal_id(
  target bigint, name text, payload jsonb default '{}', dedup_key text default null) returns text
language sql
set search_path = pg_catalog, pg_temp
begin atomic
  select :"schema"._gd_refuse('25000', 'gd_signal: expected isolation level read committed, got '
    || current_setting('transaction_isolation'))
  where current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');

  select :"schema"._gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema"._gd_name_fault('signal name', _gd_signal_id.name, 255),
    case when _gd_signal_id.dedup_key is not null
         then :"schema"._gd_name_fault('dedup key', _gd_signal_id.dedup_key, 1024) end,
    :"schema"._gd_json_fault('payload', _gd_signal_id.payload)) as fault) f
  where f.fault is not null;

  select g.id from :"schema".gen_durable g where g.id = _gd_signal_id.target for no key update;

  with entry as materialized (
    select g.id, g.status, g.awaits, g.status in ('done', 'failed') as finished,
      (select count(*) from (
        select from :"schema".gen_durable_signals s
        where s.target_id = g.id and s.consumed_at is null
        limit 1000) inbox) >= 1000 as full
    from :"schema".gen_durable g
    where g.id = _gd_signal_id.target
  ), accepted as (
    insert into :"schema".gen_durable_signals (target_id, name, payload, dedup_key)
    select e.id, _gd_signal_id.name, _gd_signal_id.payload, _gd_signal_id.dedup_key
    from entry e
    where not e.finished and not e.full
    on conflict do nothing
    returning target_id
  ), woken as (
    update :"schema".gen_durable g
    set (status, awaits, awaits_also, eligible_at) = (
          select case when w.unsure then g.status else 'runnable' end,
            case when w.unsure then g.awaits end,
            case when w.unsure then g.awaits_also end,
            case when w.unsure then g.eligible_at else clock_timestamp() end
          from (select g.unique_key is not null and 'runnable' = any(g.unique_scope)
                       and not 'awaiting_signal' = any(g.unique_scope) as unsure) w),
        wake_reason = 'signal', updated_at = clock_timestamp()
    where g.id in (select a.target_id from accepted a) and g.status = 'awaiting_signal'
      and (g.awaits = _gd_signal_id.name or _gd_signal_id.name = any(g.awaits_also))
      and not (g.wake_reason is not null and g.unique_key is not null and 'runnable' = any(g.unique_scope)
               and not 'awaiting_signal' = any(g.unique_scope)) -- its wake-up is owed already: the first reason stays
  )
  select case
    when not exists (select from entry) then 'no_such_target'
    when exists (select from accepted) then 'accepted'
    when _gd_signal_id.dedup_key is not null and exists (
      select from :"schema".gen_durable_signals s
      where s.target_id = _gd_signal_id.target and s.dedup_key = _gd_signal_id.dedup_key) then 'duplicate'
    when (select e.finished from entry e) then 'target_finished'
    when (select e.full from entry e) then 'inbox_full'
    else :"schema"._gd_not_stored(_gd_signal_id.target, _gd_signal_id.dedup_key) end;
end;

-- Sends a signal, as _gd_signal_id says, to an instance that is named by its id, or by the key that it has. One function for both:
-- of two, PostgreSQL could not tell which one is meant by arguments without a type, as many drivers send them. The trigger does
-- not check again what _gd_signal_id has checked. strict: what a person has written by hand, whose typing errors are refused
-- (_gd_signal_fault).
create function :"schema".gd_signal(
  target bigint default null, name text default null, payload jsonb default '{}', dedup_key text default null,
  key text default null, key_bytes bytea default null, strict boolean default false) returns text
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
as $$
declare
  named bytea := _gd_address('target', target, gd_signal.key, key_bytes);
  whom bigint := case when named is null then target else _gd_hold(named) end;
  misfit text := case when strict then _gd_signal_fault(whom, gd_signal.name, payload) end;
  trusted text := coalesce(current_setting('gd.trusted', true), '');
  answer text;
begin
  if misfit is not null then
    raise exception using errcode = '22023', message = misfit, hint = 'strict => false does it all the same.';
  end if;
  perform set_config('gd.trusted', 'json', true);
  answer := _gd_signal_id(whom, gd_signal.name, payload, gd_signal.dedup_key);
  perform set_config('gd.trusted', trusted, true);
  return answer;
end
$$;
