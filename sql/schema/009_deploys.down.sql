-- By which older libraries pick: dropped where the schema was activated.
create index if not exists gen_durable_pick on :"schema".gen_durable
  (queue, fsm, fsm_version, priority, eligible_at, id)
  where status = 'runnable' and partition_key is null;

alter table :"schema".gen_durable drop constraint gen_durable_awaiting, drop constraint gen_durable_executing;

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

drop function :"schema".gd_choose_version(text, int);

alter table :"schema".gen_durable_nodes drop column knows;

drop index :"schema".gen_durable_machines_pin;
alter table :"schema".gen_durable_machines
  drop constraint gen_durable_machines_pinned, drop column retired, drop column pinned, drop column last_served,
  drop column served;

comment on table :"schema".gen_durable is 'gen_durable schema 8, works with libraries from 3';
