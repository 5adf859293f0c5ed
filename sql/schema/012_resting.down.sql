-- What rests stays parked, and what it rests for is known again behind the next way up, when a node has started.
-- Makes an instance, or finds the one that has its unique key. What is left open is filled in from what nodes have made
-- known. May wait for another transaction that inserts the same unique key, as long as lock_timeout lets it.
create or replace function :"schema".gd_insert(
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

  select :"schema".gd_refuse(case when f.retired then 'MV002' else '42704' end, f.fault)
  from (
    select k.retired, case
      when k.retired and gd_insert.version is null
      then format('version: all versions of %s are retired: %s', gd_insert.fsm, k.versions)
      when k.retired then format('version: %s v%s is retired', gd_insert.fsm, gd_insert.version)
      when k.found and gd_insert.step <> '' and not gd_insert.step = any(m.steps)
      then format('step: expected one of %s of %s v%s, got %s', array_to_string(m.steps, '|'), gd_insert.fsm, m.version,
                  gd_insert.step)
      when k.found or gd_insert.step <> '' and gd_insert.queue <> '' then null
      when k.versions is null
      then format('fsm: no node has made %s known; expected a known machine, or step and queue as well',
                  gd_insert.fsm || coalesce(' v' || gd_insert.version, ''))
      else format('version: %s is known in version %s, got %s; or give step and queue as well', gd_insert.fsm,
                  k.versions, gd_insert.version) end as fault
    from (
      select string_agg(n.version::text, '|' order by n.version) as versions,
        bool_or(gd_insert.version is null or n.version = gd_insert.version) is true as found,
        bool_and(n.retired) filter (where gd_insert.version is null or n.version = gd_insert.version) is true as retired
      from :"schema".gen_durable_machines n
      where n.fsm = gd_insert.fsm) k
    left join lateral :"schema".gd_choose_version(gd_insert.fsm, gd_insert.version) m on true) f
  where f.fault is not null;

  select r.instance, r.duplicate
  from (select) one
  left join lateral :"schema".gd_choose_version(gd_insert.fsm, gd_insert.version) m on true
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
      unique_key, unique_scope, history, ledger_step)
    overriding system value
    values (gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
      gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
      gd_insert_row.unique_key, gd_insert_row.unique_scope, coalesce((select m.history from machine m), 0),
      (select gd_insert_row.step from machine m))
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

drop function :"schema".gd_arrival(text, int, text);

alter table :"schema".gen_durable_machines drop column outside;

comment on table :"schema".gen_durable is 'gen_durable schema 11, works with libraries from 3';
