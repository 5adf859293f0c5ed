-- Keys are no addresses any more, and those of another machine are duplicates again.
drop function :"schema".gd_fork(bigint, bigint, text, text, text, text, bytea);
drop function :"schema".gd_rewind(bigint, bigint, text, text, text, bytea);
drop function :"schema".gd_put_back(bigint, bytea, bigint, text, text);
drop function :"schema".gd_transition(bigint, text, text, bigint, jsonb, jsonb, text, text, text, bytea);
drop function :"schema".gd_history(bigint, bigint, int, boolean, text, bytea);
drop function :"schema".gd_status(bigint, text, bytea);
drop function :"schema".gd_signal(bigint, text, jsonb, text, text, bytea);
drop function :"schema".gd_move_named(bigint, bytea, text, text, bigint, jsonb, jsonb, text, text, boolean);
drop function :"schema".gd_hold_all(bigint[], bytea[], boolean);
drop function :"schema".gd_hold(bytea);
drop function :"schema".gd_hold_key(bytea, boolean);
drop function :"schema".gd_named(bigint, bytea);
drop function :"schema".gd_address(text, bigint, text, bytea);
alter function :"schema".gd_history_id(bigint, bigint, int, boolean) rename to gd_history;
alter function :"schema".gd_status_id(bigint) rename to gd_status;
alter function :"schema".gd_signal_id(bigint, text, jsonb, text) rename to gd_signal;

create or replace function :"schema".gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".durable_status[],
  out instance bigint, out duplicate boolean)
language sql
begin atomic
  with machine as materialized (
    select m.history
    from :"schema".gen_durable_machines m
    where m.fsm = gd_insert_row.fsm and m.version = gd_insert_row.version and m.history > 0
      and :"schema".gd_keeps_history()
  ), made as (
    insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
      unique_key, unique_scope, history, ledger_step, status, awaits, deadline, result)
    overriding system value
    select gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
      gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
      gd_insert_row.unique_key, gd_insert_row.unique_scope, coalesce((select m.history from machine m), 0),
      (select gd_insert_row.step from machine m), a.status, a.awaits, a.deadline, a.result
    from :"schema".gd_arrival(gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step) a
    on conflict do nothing
    returning *
  )
  select :"schema".gd_enter_insert(m.id, m.updated_at, m.fsm_version, m.step, case when m.history = 2 then m.state end)
  from made m
  where m.history > 0;

  select coalesce(a.made, a.holder, case
      when gd_insert_row.unique_key is null
      then :"schema".gd_refuse('23505', 'another row has its place')
      else :"schema".gd_refuse('40001', 'unique_key: whoever had it has just left it; try again') end),
    a.made is null
  from (
    select
      (select g.id from :"schema".gen_durable g where g.id = gd_insert_row.id) as made,
      (select o.id from :"schema".gen_durable o where o.unique_guard = gd_insert_row.unique_key) as holder) a;
end;

drop function :"schema".gd_key_text(bytea);

create function :"schema".gd_transition(
  target bigint, to_step text, from_step text default null, seq bigint default null, state jsonb default null,
  metadata jsonb default null, reason text default null, by text default null) returns bigint
language sql
set search_path = pg_catalog, pg_temp
begin atomic
  select :"schema".gd_refuse('25000', 'gd_transition: expected isolation level read committed, got '
    || current_setting('transaction_isolation'))
  where current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');

  select :"schema".gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema".gd_name_fault('to', gd_transition.to_step, 255),
    case when gd_transition.from_step is not null
         then :"schema".gd_name_fault('from', gd_transition.from_step, 255) end,
    case when gd_transition.seq < 0 then 'seq: expected 0 or more, got ' || gd_transition.seq end,
    case when gd_transition.state is not null then coalesce(
      :"schema".gd_json_fault('state', gd_transition.state),
      case when jsonb_typeof(gd_transition.state) <> 'object' then 'state: $: expected object' end) end,
    case when gd_transition.metadata is not null then coalesce(
      :"schema".gd_json_fault('metadata', gd_transition.metadata),
      case when octet_length(gd_transition.metadata::text) > 65536
           then 'metadata: expected at most 65536 bytes of JSON, got ' || octet_length(gd_transition.metadata::text) end) end,
    case when octet_length(gd_transition.reason) > 8192
         then 'reason: expected at most 8192 bytes, got ' || octet_length(gd_transition.reason) end,
    case when gd_transition.by is not null
         then :"schema".gd_name_fault('by', gd_transition.by, 255) end) as fault) f
  where f.fault is not null;

  select case m.answer
    when 'moved' then m.seq
    else :"schema".gd_refuse(
      case m.answer when 'conflict' then 'MV003' when 'not_allowed' then 'MV004' when 'unknown_step' then '42704'
                    when 'taken' then '23505' else 'P0002' end, m.detail) end
  from :"schema".gd_move(
    gd_transition.target, gd_transition.to_step, gd_transition.from_step, gd_transition.seq, gd_transition.state,
    gd_transition.metadata, gd_transition.reason, gd_transition.by, true) m;
end;

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

comment on table :"schema".gen_durable is 'gen_durable schema 16, works with libraries from 3';
