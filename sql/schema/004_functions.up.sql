-- Inserts, signals and looks from any language, in the caller's own transaction: plain functions with the library's
-- rules. Their names are bound when they are made, so that no search_path leads them elsewhere. They do what the
-- caller's role may do. What they refuse is an error, which aborts the caller's transaction unless a savepoint is there.

-- Raises an error. Holds no name of ours: nothing is substituted inside the quotes.
create function :"schema".gd_refuse(code text, message text) returns bigint
language plpgsql
as $$
begin
  raise exception using errcode = $1, message = $2;
end
$$;

-- What is wrong with a name, or null.
create function :"schema".gd_name_fault(what text, name text, most int) returns text
language sql stable
begin atomic
  select what || ': expected 1 to ' || most || ' bytes of UTF-8 without control characters, got '
    || case when coalesce(name, '') = '' then 'nothing'
            when octet_length(name) > most then octet_length(name) || ' bytes'
            else 'byte 0x' || lpad(to_hex(ascii(substr(name, length(p.good) + 1, 1))), 2, '0')
                 || ' at offset ' || octet_length(p.good) end
  from (select substring(name from '^[^\u0001-\u001f\u007f]*') as good) p
  where coalesce(octet_length(name), 0) not between 1 and most or p.good <> name;
end;

-- What is wrong with a JSON value, or null.
create function :"schema".gd_json_fault(what text, value jsonb) returns text
language sql stable
begin atomic
  select case
    when value is null then what || ': expected JSON, got nothing'
    when octet_length(value::text) > 1048576
    then what || ': expected at most 1048576 bytes of JSON, got ' || octet_length(value::text)
    when jsonb_path_exists(value, 'strict $.**{512} ? (@.type() == "array" || @.type() == "object")')
    then what || ': expected at most 512 levels, got more' end;
end;

-- Inserts a row whose every column is known. The answer comes from a statement of its own: what it waited for is
-- younger than the snapshot of the insert.
create function :"schema".gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".durable_status[],
  out instance bigint, out duplicate boolean)
language sql
begin atomic
  insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
    unique_key, unique_scope)
  overriding system value
  values (gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
    gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
    gd_insert_row.unique_key, gd_insert_row.unique_scope)
  on conflict do nothing;

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

-- Makes an instance, or finds the one that has its unique key. What is left open is filled in from what nodes have made
-- known. May wait for another transaction that inserts the same unique key, as long as lock_timeout lets it.
create function :"schema".gd_insert(
  fsm text, state jsonb default '{}', version int default null, step text default null, queue text default null,
  priority int default 0, eligible_at timestamptz default null, delay interval default null,
  partition_key text default null, unique_key text default null, unique_scope text[] default null,
  out id bigint, out duplicate boolean)
language sql
set search_path = pg_catalog, pg_temp
begin atomic
  select :"schema".gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema".gd_name_fault('fsm', gd_insert.fsm, 255),
    case when gd_insert.version < 1
         then 'version: expected 1 or more, or null for the newest, got ' || gd_insert.version end,
    case when gd_insert.step <> '' then :"schema".gd_name_fault('step', gd_insert.step, 255) end,
    case when gd_insert.queue <> '' then :"schema".gd_name_fault('queue', gd_insert.queue, 255) end,
    case when gd_insert.priority not between -32768 and 32767
         then 'priority: expected -32768 to 32767, got ' || gd_insert.priority end,
    case when gd_insert.partition_key is not null
         then :"schema".gd_name_fault('partition_key', gd_insert.partition_key, 1024) end,
    case when octet_length(gd_insert.unique_key) not between 1 and 1024
         then 'unique_key: expected 1 to 1024 bytes, got ' || octet_length(gd_insert.unique_key) end,
    case when gd_insert.unique_key is null and cardinality(gd_insert.unique_scope) > 0
         then 'unique_scope: expected a unique_key beside it' end,
    (select 'unique_scope: expected some of ' || array_to_string(enum_range(cast(null as :"schema".durable_status)), '|')
       || ', got ' || coalesce(s.status, 'null')
     from unnest(gd_insert.unique_scope) s (status)
     where (s.status = any(enum_range(cast(null as :"schema".durable_status))::text[])) is not true
     limit 1),
    case when 'executing' = any(gd_insert.unique_scope) and not 'runnable' = any(gd_insert.unique_scope)
         then 'unique_scope: expected runnable beside executing: what has been let in must be able to run' end,
    case when gd_insert.partition_key is not null and 'runnable' = any(gd_insert.unique_scope)
              and not 'executing' = any(gd_insert.unique_scope)
         then 'unique_scope: expected executing beside runnable where there is a partition_key' end,
    case when gd_insert.delay not between interval '0' and interval '100 years'
         then 'delay: expected 0 to 100 years, got ' || gd_insert.delay end,
    case when gd_insert.eligible_at not between timestamptz 'epoch' and timestamptz '3000-01-01 00:00:00Z'
         then 'eligible_at: expected a time from 1970 until the year 3000, got ' || gd_insert.eligible_at end,
    case when gd_insert.eligible_at is not null and gd_insert.delay > interval '0'
         then 'eligible_at and delay: expected one of them, got both' end,
    :"schema".gd_json_fault('state', gd_insert.state),
    case when jsonb_typeof(gd_insert.state) <> 'object' then 'state: $: expected object' end) as fault) f
  where f.fault is not null;

  select :"schema".gd_refuse('42704', f.fault)
  from (
    select case
      when k.found and gd_insert.step <> '' and not gd_insert.step = any(k.steps)
      then format('step: expected one of %s of %s v%s, got %s', array_to_string(k.steps, '|'), gd_insert.fsm, k.version,
                  gd_insert.step)
      when k.found or gd_insert.step <> '' and gd_insert.queue <> '' then null
      when k.versions is null
      then format('fsm: no node has made %s known; expected a known machine, or step and queue as well',
                  gd_insert.fsm || coalesce(' v' || gd_insert.version, ''))
      else format('version: %s is known in version %s, got %s; or give step and queue as well', gd_insert.fsm,
                  k.versions, gd_insert.version) end as fault
    from (
      select string_agg(m.version::text, '|' order by m.version) as versions,
        bool_or(gd_insert.version is null or m.version = gd_insert.version) is true as found,
        coalesce(gd_insert.version, max(m.version)) as version,
        (select n.steps from :"schema".gen_durable_machines n
         where n.fsm = gd_insert.fsm and (gd_insert.version is null or n.version = gd_insert.version)
         order by n.version desc limit 1) as steps
      from :"schema".gen_durable_machines m
      where m.fsm = gd_insert.fsm) k) f
  where f.fault is not null;

  select r.instance, r.duplicate
  from (select) one
  left join lateral (
    select n.version, n.initial_step, n.queue from :"schema".gen_durable_machines n
    where n.fsm = gd_insert.fsm and (gd_insert.version is null or n.version = gd_insert.version)
    order by n.version desc limit 1) m on true
  cross join lateral :"schema".gd_insert_row(
    nextval(pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable', 'id')::regclass), gd_insert.fsm,
    coalesce(m.version, gd_insert.version, 1), coalesce(nullif(gd_insert.step, ''), m.initial_step), gd_insert.state,
    coalesce(nullif(gd_insert.queue, ''), m.queue), coalesce(gd_insert.priority, 0)::smallint,
    coalesce(gd_insert.eligible_at, clock_timestamp() + coalesce(gd_insert.delay, interval '0')),
    gd_insert.partition_key, convert_to(gd_insert.unique_key, 'UTF8'),
    cast(case when gd_insert.unique_key is null then '{}'
              when coalesce(cardinality(gd_insert.unique_scope), 0) = 0 then '{runnable,executing,awaiting_signal}'
              else gd_insert.unique_scope end as :"schema".durable_status[])) r;
end;

-- Sends a signal: accepted, duplicate, no_such_target, target_finished or inbox_full. Waits for the target's row, as
-- long as lock_timeout lets it, and looks at it in a statement of its own, whose snapshot is younger than the lock. A
-- target whose unique key would be taken again by its wake-up stays parked, its wake_reason set: an engine wakes it.
create function :"schema".gd_signal(
  target bigint, name text, payload jsonb default '{}', dedup_key text default null) returns text
language sql
set search_path = pg_catalog, pg_temp
begin atomic
  select :"schema".gd_refuse('25000', 'gd_signal: expected isolation level read committed, got '
    || current_setting('transaction_isolation'))
  where current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');

  select :"schema".gd_refuse('22023', f.fault)
  from (select coalesce(
    :"schema".gd_name_fault('signal name', gd_signal.name, 255),
    case when gd_signal.dedup_key is not null
         then :"schema".gd_name_fault('dedup key', gd_signal.dedup_key, 1024) end,
    :"schema".gd_json_fault('payload', gd_signal.payload)) as fault) f
  where f.fault is not null;

  select g.id from :"schema".gen_durable g where g.id = gd_signal.target for no key update;

  with entry as materialized (
    select g.id, g.status, g.awaits, g.status in ('done', 'failed') as finished,
      (select count(*) from (
        select from :"schema".signals s
        where s.target_id = g.id and s.consumed_at is null
        limit 1000) inbox) >= 1000 as full
    from :"schema".gen_durable g
    where g.id = gd_signal.target
  ), accepted as (
    insert into :"schema".signals (target_id, name, payload, dedup_key)
    select e.id, gd_signal.name, gd_signal.payload, gd_signal.dedup_key
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
    where g.id in (select a.target_id from accepted a) and g.status = 'awaiting_signal' and g.awaits = gd_signal.name
      and not (g.wake_reason is not null and g.unique_key is not null and 'runnable' = any(g.unique_scope)
               and not 'awaiting_signal' = any(g.unique_scope)) -- its wake-up is owed already: the first reason stays
  )
  select case
    when not exists (select from entry) then 'no_such_target'
    when exists (select from accepted) then 'accepted'
    when gd_signal.dedup_key is not null and exists (
      select from :"schema".signals s
      where s.target_id = gd_signal.target and s.dedup_key = gd_signal.dedup_key) then 'duplicate'
    when (select e.finished from entry e) then 'target_finished'
    when (select e.full from entry e) then 'inbox_full'
    else 'duplicate' end;
end;

-- One instance, as it is. No row: there is no such instance.
create function :"schema".gd_status(target bigint)
returns table (
  id bigint, fsm text, version int, step text, status text, state jsonb, result jsonb, awaits text, queue text,
  priority smallint, attempt int, last_error text, locked_by text, wake_reason text, eligible_at timestamptz,
  deadline timestamptz, lease_expires_at timestamptz, inserted_at timestamptz, updated_at timestamptz, inbox bigint,
  partition_key text, unique_key bytea)
language sql stable
begin atomic
  select g.id, g.fsm, g.fsm_version, g.step, g.status::text, g.state, g.result, g.awaits, g.queue, g.priority,
    g.attempt, g.last_error, g.locked_by, g.wake_reason, g.eligible_at, g.deadline, g.lease_expires_at, g.inserted_at,
    g.updated_at,
    (select count(*) from :"schema".signals s where s.target_id = g.id and s.consumed_at is null), g.partition_key,
    g.unique_key
  from :"schema".gen_durable g
  where g.id = gd_status.target;
end;

comment on table :"schema".gen_durable is 'gen_durable schema 4, works with libraries from 3';
