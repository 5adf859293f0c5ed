-- Unique keys are one namespace for all machines, and addresses: who has one is found by it, and under its row's lock found
-- again. Names inside the quotes are found in this schema alone, and written as gd_move says.

-- A key as it is shown: as it is, if it is UTF-8 without control characters, those of bidirectional text among them, and does
-- not begin with \x; else \x and the hexadecimal digits of its bytes, of which the pattern is: with what a sequence begins.
create function :"schema".gd_key_text(key bytea) returns text
language sql immutable strict
begin atomic
  select case
    when getdatabaseencoding() = 'UTF8' and substring(k.hex for 4) <> '5c78' and k.hex ~ concat(
      '^(?:(?!d89c|e2808[ef]|e280a[a-e]|e281a[6-9])(?:[2-6][0-9a-f]|7[0-9a-e]|c2[ab][0-9a-f]',
      '|(?:c[3-9a-f]|d[0-9a-f])[89ab][0-9a-f]',
      '|(?:e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]',
      '|(?:f0[9ab]|f[1-3][89ab]|f48)[0-9a-f](?:[89ab][0-9a-f]){2}))*$')
    then convert_from(gd_key_text.key, 'UTF8')
    else chr(92) || 'x' || k.hex end
  from (select encode(gd_key_text.key, 'hex') as hex) k;
end;

-- As before, but not for one that an instance of another machine has: MV005.
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
    returning id, updated_at, history
  )
  select :"schema".gd_enter_insert(m.id, m.updated_at, gd_insert_row.version, gd_insert_row.step,
    case when m.history = 2 then gd_insert_row.state end)
  from made m
  where m.history > 0;

  select coalesce(g.id, case
      when o.fsm <> gd_insert_row.fsm
      then :"schema".gd_refuse('MV005', format('unique_key: %s is that of instance %s of %s',
                                               :"schema".gd_key_text(gd_insert_row.unique_key), o.id, o.fsm))
      else o.id end, case
      when gd_insert_row.unique_key is null
      then :"schema".gd_refuse('23505', 'another row has its place')
      else :"schema".gd_refuse('40001', 'unique_key: whoever had it has just left it; try again') end),
    g.id is null
  from (select) one
  left join :"schema".gen_durable g on g.id = gd_insert_row.id
  left join :"schema".gen_durable o on o.unique_guard = gd_insert_row.unique_key;
end;

-- The key that names an instance, if it is named by its key, as text or as bytes; null: by its id.
create function :"schema".gd_address(what text, id bigint, key text, key_bytes bytea) returns bytea
language plpgsql stable
set search_path = :"schema", pg_temp
as $$
declare
  named bytea := coalesce(key_bytes, pg_catalog.convert_to(key, 'UTF8'));
begin
  if pg_catalog.num_nonnulls(id, key, key_bytes) > 1 then
    raise exception '%, key and key_bytes: expected one of them, got several', what using errcode = '22023';
  end if;
  if octet_length(named) not between 1 and 1024 then
    raise exception 'key: expected 1 to 1024 bytes, got %', octet_length(named) using errcode = '22023';
  end if;
  return named;
end
$$;

-- How messages call it, behind "instance".
create function :"schema".gd_named(id bigint, key bytea) returns text
language sql immutable
begin atomic
  select case when gd_named.key is null then gd_named.id::text
              else 'with the unique key ' || :"schema".gd_key_text(gd_named.key) end;
end;

-- Locks the row of the instance that has a key. One that has left it while it was being locked is let be, and whoever has the
-- key now is looked for, five times at the most. Each of these statements has a snapshot of its own. wait: for strangers, as long
-- as lock_timeout lets it.
-- holder: null: nobody has the key. held: its row is locked, and has the key; if not, a stranger has locked it.
create function :"schema".gd_hold_key(key bytea, wait boolean, out holder bigint, out held boolean)
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  held := false;
  for tries in 1 .. 5 loop
    select g.id into holder from gen_durable g where g.unique_guard = key;
    if not found then
      return;
    end if;
    if wait then
      perform from gen_durable g where g.id = holder for no key update;
    end if;
    perform from gen_durable g where g.id = holder and g.unique_guard = key for no key update skip locked;
    held := found;
    if not held and not wait then
      perform from gen_durable g where g.id = holder and g.unique_guard = key;
      exit when found;
    end if;
    exit when held;
  end loop;
end
$$;

-- Waits for it: the id of the instance that has a key, locked; null: nobody has.
create function :"schema".gd_hold(key bytea) returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  h record;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'key: expected isolation level read committed, got %', current_setting('transaction_isolation')
      using errcode = '25000';
  end if;
  select x.holder, x.held into h from gd_hold_key(key, true) x;
  if h.holder is not null and not h.held then
    raise exception 'target: one after the other is the instance %', gd_named(null, key) using errcode = '55P03';
  end if;
  return h.holder;
end
$$;

-- Locks the targets of many signals, each named by its id or by its key. wait: for all that strangers hold, in id order.
-- targets: whom each one names, in the order given; null: nobody has the key. locked: the ids of those that are locked.
create function :"schema".gd_hold_all(
  ids bigint[], keys bytea[], wait boolean, out targets bigint[], out locked bigint[])
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  if wait then
    perform from gen_durable g
    where g.id = any(pg_catalog.array_cat(ids, array(
      select o.id
      from pg_catalog.unnest(keys) k (key)
      cross join lateral (select g.id from gen_durable g where g.unique_guard = k.key offset 0) o)))
    order by g.id
    for no key update;
  end if;
  with named as materialized (
    select e.n, case when e.key is null then e.id else h.holder end as id, h.holder, h.held
    from rows from (pg_catalog.unnest(ids), pg_catalog.unnest(keys)) with ordinality e (id, key, n)
    cross join lateral gd_hold_key(e.key, false) h
  ), by_id as materialized (
    select g.id from gen_durable g where g.id = any(ids) order by g.id for no key update skip locked
  )
  select
    array(select m.id from named m order by m.n),
    array(
      select x.id
      from (select b.id from by_id b union all select m.id from named m where m.held) x
      where x.id not in (select m.holder from named m where m.holder is not null and not m.held))
  into targets, locked;
end
$$;

-- As gd_move, of an instance that is named by its id or by its key; and if a stranger that it waits for takes its unique key,
-- that is told, too. answer, beside those of gd_move: locked, also with wait, where one instance after the other has a key.
create function :"schema".gd_move_named(
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
    -- One that executes is not locked: see gd_move.
    select g.id, g.status::text, left(g.step, 1025), g.seq
    into which, status, step, seq
    from gen_durable g
    where g.unique_guard = key and g.status::text = 'executing';
    if found then
      answer := 'conflict';
      detail := gd_move_conflict(which, from_step, from_seq, status, step, seq);
      return;
    end if;
    select h.holder, h.held into here from gd_hold_key(key, wait) h;
    which := here.holder;
    if not here.held then
      answer := case when which is null then 'no_such_target' else 'locked' end;
      detail := pg_catalog.format(case when which is null then 'target: there is no instance %s'
                                       else 'target: one after the other is the instance %s' end, gd_named(null, key));
      return;
    end if;
  end if;
  if not wait then
    select m.* into answer, status, step, seq, queue, detail
    from gd_move(which, to_step, from_step, from_seq, new_state, metadata, reason, by, false) m;
    return;
  end if;
  begin
    select m.* into answer, status, step, seq, queue, detail
    from gd_move(which, to_step, from_step, from_seq, new_state, metadata, reason, by, true) m;
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

-- What is named by an id alone goes on under another name, for those who depend on it by more than its name: views, say. In
-- its place comes what also takes a key, behind all others. One function for both: of two, PostgreSQL could not tell which one
-- is meant by arguments without a type, as many drivers send them.

alter function :"schema".gd_signal(bigint, text, jsonb, text) rename to gd_signal_id;

-- Sends a signal, as gd_signal_id says, to an instance that is named by its id, or by the key that it has.
create function :"schema".gd_signal(
  target bigint default null, name text default null, payload jsonb default '{}', dedup_key text default null,
  key text default null, key_bytes bytea default null) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  named bytea := gd_address('target', target, gd_signal.key, key_bytes);
begin
  return gd_signal_id(case when named is null then target else gd_hold(named) end, gd_signal.name, payload,
                      gd_signal.dedup_key);
end
$$;

alter function :"schema".gd_status(bigint) rename to gd_status_id;

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

alter function :"schema".gd_history(bigint, bigint, int, boolean) rename to gd_history_id;

-- What the ledger has of an instance, as gd_history_id says, named by its id, or by the key that it has.
create function :"schema".gd_history(
  instance bigint default null, from_seq bigint default null, most int default 100, newest_first boolean default false,
  key text default null, key_bytes bytea default null)
returns setof :"schema".gen_durable_ledger
language sql stable
begin atomic
  select l.*
  from (
    select :"schema".gd_address('instance', gd_history.instance, gd_history.key, gd_history.key_bytes) as key
    offset 0) a
  cross join lateral :"schema".gd_history_id(
    case when a.key is null then gd_history.instance
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end,
    gd_history.from_seq, gd_history.most, gd_history.newest_first) l;
end;

drop function :"schema".gd_transition(bigint, text, text, bigint, jsonb, jsonb, text, text);

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
                    when 'taken' then 'MV006' when 'locked' then '55P03' else 'P0002' end, m.detail) end
  from :"schema".gd_move_named(
    gd_transition.target,
    :"schema".gd_address('target', gd_transition.target, gd_transition.key, gd_transition.key_bytes), gd_transition.to_step,
    gd_transition.from_step, gd_transition.seq, gd_transition.state, gd_transition.metadata,
    gd_transition.reason, gd_transition.by, true) m;
end;

drop function :"schema".gd_rewind(bigint, bigint, text, text);

-- Puts an instance that does not execute back to the step and the state of an entry, and tells its seq and status now. Consumed
-- signals stay consumed, the others in its inbox. Waits for its row, as long as lock_timeout lets it.
create function :"schema".gd_put_back(
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

-- The same, named by its id, or by the key that it has: its seq now.
create function :"schema".gd_rewind(
  target bigint default null, seq bigint default null, reason text default null, by text default null,
  key text default null, key_bytes bytea default null)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  return (
    select p.seq_now
    from gd_put_back(target, gd_address('target', target, key, key_bytes), gd_rewind.seq, gd_rewind.reason, gd_rewind.by) p);
end
$$;

drop function :"schema".gd_fork(bigint, bigint, text, text, text);

-- Makes an instance that begins at the step and the state of an entry of another one's history, with that one's priority and
-- partition key, in its queue or a given one, and without a unique key. The other one is named by its id, or by the key that
-- it has. Returns the new one's id.
create function :"schema".gd_fork(
  target bigint default null, seq bigint default null, queue text default null, reason text default null,
  by text default null, key text default null, key_bytes bytea default null)
returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := coalesce(gd_mover_fault(gd_fork.reason, gd_fork.by),
                         case when gd_fork.queue <> '' then gd_name_fault('queue', gd_fork.queue, 255) end);
  named bytea := gd_address('target', gd_fork.target, gd_fork.key, gd_fork.key_bytes);
  origin record;
  entry gen_durable_ledger;
  made bigint;
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
    raise exception 'there is no instance %', gd_named(gd_fork.target, named) using errcode = 'P0002';
  end if;
  entry := gd_entry(origin.id, origin.fsm, gd_fork.seq);
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
    pg_catalog.jsonb_build_object('id', origin.id, 'seq', gd_fork.seq), entry.state);
  return made;
end
$$;

select :"schema".gd_note_version(17);
