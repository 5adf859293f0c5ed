-- Inserts, signals and looks from any language, in the caller's own transaction: plain functions with the library's
-- rules. Their names are bound when they are made, so that no search_path leads them elsewhere. They do what the
-- caller's role may do. What they refuse is an error, which aborts the caller's transaction unless a savepoint is there. Where row
-- security hides rows from whoever calls, that is an error, too, in the place of an answer that is as if they were not there.

-- What an insert means that names this version, or, if that is null, none: the pinned one; else the newest that a node
-- serves; else the one that was served last. A version that is named may be a retired one. No row: there is none.
create function :"schema"._gd_choose_version(
  fsm text, named int,
  out version int, out initial_step text, out queue text, out steps text[])
returns setof record
language sql stable
begin atomic
  select m.version, m.initial_step, m.queue, m.steps
  from :"schema".gen_durable_machines m
  where m.fsm = _gd_choose_version.fsm
    and case when _gd_choose_version.named is null then not m.retired else m.version = _gd_choose_version.named end
  order by m.pinned desc, m.served desc, case when not m.served then m.last_served end desc nulls last, m.version desc
  limit 1;
end;

-- How an instance arrives at a step: due; parked until its deadline, where it rests; done, where it ends. Where no node has
-- made that known, due: an engine parks or ends it.
create function :"schema"._gd_arrival(
  fsm text, version int, step text,
  out status :"schema".gen_durable_status, out awaits text, out deadline timestamptz, out result jsonb)
language sql
begin atomic
  select cast(case when s.rests then 'awaiting_signal' when s.ends then 'done' else 'runnable' end as :"schema".gen_durable_status),
    case when s.rests then '' end,
    case when s.rests then clock_timestamp() + s.after_us * interval '1 microsecond' end,
    case when s.ends then jsonb '{}' end
  from (select) one
  left join lateral (
    select (o.step ->> 'rests')::boolean as rests, (o.step ->> 'ends')::boolean as ends,
      (o.step ->> 'after_us')::bigint as after_us
    from :"schema".gen_durable_machines m
    cross join lateral (select m.outside -> _gd_arrival.step as step) o
    where m.fsm = _gd_arrival.fsm and m.version = _gd_arrival.version) s on true;
end;

-- Whoever is told of another's instance may rely on it: where there are synchronous standbys, these have it by the commit.
create function :"schema"._gd_rely_on(duplicate boolean) returns boolean
language sql
begin atomic
  select case when _gd_rely_on.duplicate and current_setting('synchronous_standby_names') <> ''
         then pg_logical_emit_message(true, 'gen_durable', '') is not null
         else _gd_rely_on.duplicate end;
end;

-- Entry 0. A function by itself: who inserts what has no history needs no rights to the ledger. An entry that is there already is
-- of an instance that has gone, whose history the new one must not go on with.
create function :"schema"._gd_enter_insert(id bigint, at timestamptz, version int, step text, state jsonb) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
  values (_gd_enter_insert.id, 0, _gd_enter_insert.at, _gd_enter_insert.version, 'insert', _gd_enter_insert.step, 0,
    _gd_enter_insert.state)
  on conflict do nothing;
  if not found then
    perform _gd_refuse_ids('gen_durable');
  end if;
end
$$;

-- Inserts a row whose every column is known, with the history that nodes have made known of its machine, and as it arrives at a
-- step where none runs. What was made is what the insert returns: a row that is found under the id may be anybody's. A unique key
-- that an instance of another machine has is an error: MV005. The state is not checked again: gd_insert has done that.
create function :"schema"._gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".gen_durable_status[],
  out instance bigint, out duplicate boolean)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  trusted text := coalesce(current_setting('gd.trusted', true), '');
  kept smallint;
  made record;
  holder record;
begin
  if _gd_insert_row.id is null then
    perform _gd_refuse_ids('gen_durable');
  end if;
  select m.history
  into kept
  from gen_durable_machines m
  where m.fsm = _gd_insert_row.fsm and m.version = _gd_insert_row.version and m.history > 0;

  perform set_config('gd.trusted', 'json', true);
  insert into gen_durable as g (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key, unique_key,
    unique_scope, unique_guard, history, ledger_step, status, awaits, deadline, result)
  overriding system value
  select _gd_insert_row.id, _gd_insert_row.fsm, _gd_insert_row.version, _gd_insert_row.step, _gd_insert_row.state,
    _gd_insert_row.queue, _gd_insert_row.priority, _gd_insert_row.eligible_at, _gd_insert_row.partition_key,
    _gd_insert_row.unique_key, _gd_insert_row.unique_scope,
    case when a.status::text = any(_gd_insert_row.unique_scope::text[]) then _gd_insert_row.unique_key end, coalesce(kept, 0),
    case when kept is not null then _gd_insert_row.step end, a.status, a.awaits, a.deadline, a.result
  from _gd_arrival(_gd_insert_row.fsm, _gd_insert_row.version, _gd_insert_row.step) a
  on conflict do nothing
  returning g.id, g.updated_at
  into made;
  perform set_config('gd.trusted', trusted, true);

  if made.id is not null then
    if kept is not null then
      perform _gd_enter_insert(made.id, made.updated_at, _gd_insert_row.version, _gd_insert_row.step,
                              case when kept = 2 then _gd_insert_row.state end);
    end if;
    instance := made.id;
    duplicate := false;
    return;
  end if;

  -- Of a statement of its own: what the insert has waited for is younger than its snapshot.
  select g.id, g.fsm
  into holder
  from gen_durable g
  where g.unique_guard = _gd_insert_row.unique_key;
  if holder.id is null then
    perform _gd_refuse_ids('gen_durable') from gen_durable g where g.id = _gd_insert_row.id;
    if _gd_insert_row.unique_key is null then
      raise exception 'a trigger lets no insert of an instance through' using errcode = 'P0001';
    end if;
    raise exception 'unique_key: whoever had it has just left it; try again' using errcode = '40001';
  elsif holder.fsm <> _gd_insert_row.fsm then
    raise exception 'unique_key: % is that of instance % of %', _gd_key_text(_gd_insert_row.unique_key), holder.id, holder.fsm
      using errcode = 'MV005';
  end if;
  instance := holder.id;
  duplicate := _gd_rely_on(true);
end
$$;

-- What is wrong with an insert, as gd_insert refuses it, what is worst first: who takes one row has no more looked at.
create function :"schema"._gd_insert_faults(
  fsm text, state jsonb, version int, step text, queue text, priority int, eligible_at timestamptz, delay interval,
  partition_key text, unique_key text, unique_scope text[])
returns table (code text, fault text)
language sql stable
begin atomic
  select '22023' as code, f.fault
  from (select coalesce(
    :"schema"._gd_name_fault('fsm', _gd_insert_faults.fsm, 255),
    case when _gd_insert_faults.version < 1
         then 'version: expected 1 or more, or null for the newest, got ' || _gd_insert_faults.version end,
    case when _gd_insert_faults.step <> '' then :"schema"._gd_name_fault('step', _gd_insert_faults.step, 255) end,
    case when _gd_insert_faults.queue <> '' then :"schema"._gd_name_fault('queue', _gd_insert_faults.queue, 255) end,
    case when _gd_insert_faults.priority not between -32768 and 32767
         then 'priority: expected -32768 to 32767, got ' || _gd_insert_faults.priority end,
    case when _gd_insert_faults.partition_key is not null
         then :"schema"._gd_name_fault('partition_key', _gd_insert_faults.partition_key, 1024) end,
    case when octet_length(_gd_insert_faults.unique_key) not between 1 and 1024
         then 'unique_key: expected 1 to 1024 bytes, got ' || octet_length(_gd_insert_faults.unique_key) end,
    case when _gd_insert_faults.unique_key is null and cardinality(_gd_insert_faults.unique_scope) > 0
         then 'unique_scope: expected a unique_key beside it' end,
    case when cardinality(_gd_insert_faults.unique_scope) > 5
         then 'unique_scope: expected at most 5 statuses, got ' || cardinality(_gd_insert_faults.unique_scope) end,
    (select 'unique_scope: expected some of ' || array_to_string(enum_range(cast(null as :"schema".gen_durable_status)), '|')
       || ', got ' || coalesce(s.status, 'null')
     from unnest(_gd_insert_faults.unique_scope) s (status)
     where (s.status = any(enum_range(cast(null as :"schema".gen_durable_status))::text[])) is not true
     limit 1),
    case when 'executing' = any(_gd_insert_faults.unique_scope) and not 'runnable' = any(_gd_insert_faults.unique_scope)
         then 'unique_scope: expected runnable beside executing: what has been let in must be able to run' end,
    case when _gd_insert_faults.partition_key is not null and 'runnable' = any(_gd_insert_faults.unique_scope)
              and not 'executing' = any(_gd_insert_faults.unique_scope)
         then 'unique_scope: expected executing beside runnable where there is a partition_key' end,
    case when _gd_insert_faults.delay not between interval '0' and interval '100 years'
         then 'delay: expected 0 to 100 years, got ' || _gd_insert_faults.delay end,
    case when _gd_insert_faults.eligible_at not between timestamptz 'epoch' and timestamptz '3000-01-01 00:00:00Z'
         then 'eligible_at: expected a time from 1970 until the year 3000, got ' || _gd_insert_faults.eligible_at end,
    case when _gd_insert_faults.eligible_at is not null and _gd_insert_faults.delay > interval '0'
         then 'eligible_at and delay: expected one of them, got both' end,
    :"schema"._gd_json_fault('state', _gd_insert_faults.state),
    case when jsonb_typeof(_gd_insert_faults.state) <> 'object' then 'state: $: expected object' end) as fault) f
  where f.fault is not null
  union all
  select case when f.retired then 'MV002' when f.fault like 'eligible_at%' then '22023' else '42704' end, f.fault
  from (
    select k.retired, case
      when k.retired and _gd_insert_faults.version is null
      then format('version: all versions of %s are retired: %s', _gd_insert_faults.fsm, k.versions)
      when k.retired then format('version: %s v%s is retired', _gd_insert_faults.fsm, _gd_insert_faults.version)
      when k.found and _gd_insert_faults.step <> '' and not _gd_insert_faults.step = any(m.steps)
      then format('step: expected one of %s of %s v%s, got %s', array_to_string(m.steps, '|'), _gd_insert_faults.fsm, m.version,
                  _gd_insert_faults.step) || :"schema"._gd_meant(_gd_insert_faults.step, m.steps)
      when (_gd_insert_faults.eligible_at is not null or _gd_insert_faults.delay > interval '0')
        and (select a.status <> 'runnable'
             from :"schema"._gd_arrival(_gd_insert_faults.fsm, m.version, coalesce(nullif(_gd_insert_faults.step, ''), m.initial_step)) a)
      then format('eligible_at and delay: no function runs in step %s of %s v%s, expected neither',
                  coalesce(nullif(_gd_insert_faults.step, ''), m.initial_step), _gd_insert_faults.fsm, m.version)
      when k.found or _gd_insert_faults.step <> '' and _gd_insert_faults.queue <> '' then null
      when k.versions is null
      then format('fsm: no node has made %s known; expected a known machine, or step and queue as well',
                  _gd_insert_faults.fsm || coalesce(' v' || _gd_insert_faults.version, ''))
           || :"schema"._gd_meant(_gd_insert_faults.fsm, array(select n.fsm from :"schema".gen_durable_machines n))
      else format('version: %s is known in version %s, got %s; or give step and queue as well', _gd_insert_faults.fsm,
                  k.versions, _gd_insert_faults.version) end as fault
    from (
      select string_agg(n.version::text, '|' order by n.version) as versions,
        bool_or(_gd_insert_faults.version is null or n.version = _gd_insert_faults.version) is true as found,
        bool_and(n.retired) filter (where _gd_insert_faults.version is null or n.version = _gd_insert_faults.version) is true as retired
      from :"schema".gen_durable_machines n
      where n.fsm = _gd_insert_faults.fsm) k
    left join lateral :"schema"._gd_choose_version(_gd_insert_faults.fsm, _gd_insert_faults.version) m on true) f
  where f.fault is not null;
end;

-- What an insert leaves open, as the machine's version fills it in, and its unique key as it is stored.
create function :"schema"._gd_insert_defaults(
  fsm text, version int, step text, queue text, unique_key text, unique_scope text[])
returns table (
  version int, step text, queue text, unique_key bytea, unique_scope :"schema".gen_durable_status[])
language sql stable
begin atomic
  select coalesce(m.version, _gd_insert_defaults.version, 1),
    coalesce(nullif(_gd_insert_defaults.step, ''), m.initial_step), coalesce(nullif(_gd_insert_defaults.queue, ''), m.queue),
    convert_to(_gd_insert_defaults.unique_key, 'UTF8'),
    cast(case when _gd_insert_defaults.unique_key is null then '{}'
              when coalesce(cardinality(_gd_insert_defaults.unique_scope), 0) = 0 then '{runnable,executing,awaiting_signal}'
              else _gd_insert_defaults.unique_scope end as :"schema".gen_durable_status[])
  from (select) one
  left join lateral :"schema"._gd_choose_version(_gd_insert_defaults.fsm, _gd_insert_defaults.version) m on true;
end;

-- Makes an instance, or finds the one that has its unique key. What is left open is filled in from what nodes have made
-- known. May wait for another transaction that inserts the same unique key, as long as lock_timeout lets it. An instance is
-- where it rests, or ends, at once: no time can be given for that. The session keeps the plans: to make them takes longer than to
-- insert a small state. strict: what a person has written by hand, whose typing errors are refused (_gd_state_fault).
create function :"schema".gd_insert(
  fsm text, state jsonb default '{}', version int default null, step text default null, queue text default null,
  priority int default 0, eligible_at timestamptz default null, delay interval default null,
  partition_key text default null, unique_key text default null, unique_scope text[] default null, strict boolean default false,
  out id bigint, out duplicate boolean)
language plpgsql
set search_path = :"schema", pg_temp
set row_security = off
set plan_cache_mode = force_generic_plan
as $$
declare
  refused record;
  misfit text;
begin
  select f.code, f.fault
  into refused
  from _gd_insert_faults(gd_insert.fsm, gd_insert.state, gd_insert.version, gd_insert.step, gd_insert.queue, gd_insert.priority,
    gd_insert.eligible_at, gd_insert.delay, gd_insert.partition_key, gd_insert.unique_key, gd_insert.unique_scope) f
  limit 1;
  if found then
    raise exception using errcode = refused.code, message = refused.fault;
  end if;
  misfit := case when gd_insert.strict then _gd_state_fault(gd_insert.fsm, gd_insert.version, gd_insert.state) end;
  if misfit is not null then
    raise exception using errcode = '22023', message = misfit, hint = 'strict => false does it all the same.';
  end if;
  select r.instance, r.duplicate
  into gd_insert.id, gd_insert.duplicate
  from _gd_insert_defaults(gd_insert.fsm, gd_insert.version, gd_insert.step, gd_insert.queue, gd_insert.unique_key,
    gd_insert.unique_scope) d
  cross join lateral _gd_insert_row(_gd_next_id(pg_get_serial_sequence('gen_durable', 'id')::regclass), gd_insert.fsm, d.version,
    d.step, gd_insert.state, d.queue, coalesce(gd_insert.priority, 0)::smallint,
    coalesce(gd_insert.eligible_at, clock_timestamp() + coalesce(gd_insert.delay, interval '0')), gd_insert.partition_key,
    d.unique_key, d.unique_scope) r;
end
$$;
