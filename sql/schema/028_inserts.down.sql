create or replace function :"schema".gd_us(at timestamptz) returns bigint
language sql immutable
begin atomic
  select case when gd_us.at is not null then (extract(epoch from greatest(
    least(gd_us.at, timestamptz '3000-01-01 00:00:00Z'), timestamptz '0001-01-01 00:00:00Z')) * 1000000)::bigint end;
end;

create or replace function :"schema".gd_time_text(at timestamptz) returns text
language sql stable
begin atomic
  select case when isfinite(gd_time_text.at) then to_char(gd_time_text.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
              else gd_time_text.at::text end;
end;

alter table :"schema".gen_durable alter column state set compression default, alter column result set compression default;
alter table :"schema".signals alter column payload set compression default;
alter table :"schema".gen_durable_ledger alter column state set compression default, alter column metadata set compression default;

create or replace function :"schema".gd_json_fault(what text, value jsonb) returns text
language sql stable
begin atomic
  select case
    when value is null then what || ': expected JSON, got nothing'
    when pg_column_size(value #> '{}') > 4194816 then what || ': expected at most 1048576 bytes of JSON, got more'
    when jsonb_path_exists(value, 'strict $.**{512} ? (@.type() == "array" || @.type() == "object")')
    then what || ': expected at most 512 levels, got more'
    else (
      select case
        when n.longest > 400
        then what || ': expected numbers that PostgreSQL prints with at most 400 characters, got a longer one'
        when n.of_all > 1048576 then what || ': expected at most 1048576 bytes of JSON, got more'
        when octet_length(value::text) > 1048576
        then what || ': expected at most 1048576 bytes of JSON, got ' || octet_length(value::text) end
      from (
        select max(p.printed) as longest, sum(p.printed) as of_all
        from (
          select case when abs(x.number) >= 1e400 or scale(x.number) > 400 then 401 else length(x.number::text) end as printed
          from (
            select v::numeric as number
            from jsonb_array_elements(jsonb_path_query_array(value, 'strict $.** ? (@.type() == "number")')) v) x) p) n)
    end;
end;

select :"schema".gd_change('gd_move', '  -- The state has been checked: a new one by who calls this, one that was there before by whoever''s limits.
  perform set_config(''gd.checks_json'', ''on'', true);', '  -- A state that was there before has been checked, by whoever''s limits.
  if new_state is null then
    perform set_config(''gd.checks_json'', ''on'', true);
  end if;');
select :"schema".gd_change('gd_signal', 'gd_signal.dedup_key);
  perform set_config(''gd.checks_json'', checks, true);
  return answer;
end', 'gd_signal.dedup_key);
end');
select :"schema".gd_change('gd_signal', '  checks text := coalesce(current_setting(''gd.checks_json'', true), '''');
  answer text;
begin
  perform set_config(''gd.checks_json'', ''on'', true);
  answer := gd_signal_id(', 'begin
  return gd_signal_id(');
select :"schema".gd_change('gd_signal_id', 'ELSE gd_not_stored(target, dedup_key)', 'ELSE ''duplicate''::text');
select :"schema".gd_change('gd_signal_id', 'ON CONFLICT DO NOTHING', 'ON CONFLICT(target_id, dedup_key) DO NOTHING');
select :"schema".gd_change('gd_begin_job', 'return made;
exception when unique_violation then
  declare
    broken text;
  begin
    get stacked diagnostics broken = constraint_name;
    if broken = any(''{gen_durable_jobs_pkey}'') then
      perform gd_refuse_ids(''gen_durable_jobs'');
    end if;
    raise;
  end;
end', 'return made;
end');
select :"schema".gd_change('gd_fork', 'return made;
exception when unique_violation then
  declare
    broken text;
  begin
    get stacked diagnostics broken = constraint_name;
    if broken = any(''{gen_durable_pkey,gen_durable_ledger_pkey}'') then
      perform gd_refuse_ids(''gen_durable'');
    end if;
    raise;
  end;
end', 'return made;
end');

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
    :"schema".gd_rely_on(g.id is null)
  from (select) one
  left join :"schema".gen_durable g on g.id = gd_insert_row.id
  left join :"schema".gen_durable o on o.unique_guard = gd_insert_row.unique_key;
end;

create or replace function :"schema".gd_enter_insert(
  id bigint, at timestamptz, version int, step text, state jsonb)
returns void
language sql
begin atomic
  insert into :"schema".gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
  values (gd_enter_insert.id, 0, gd_enter_insert.at, gd_enter_insert.version, 'insert', gd_enter_insert.step, 0,
    gd_enter_insert.state);
end;

drop function :"schema".gd_repair();
drop function :"schema".gd_check();
drop function :"schema".gd_not_stored(bigint, text);
drop function :"schema".gd_refuse_ids(text);
drop function :"schema".gd_ids_fault(text);
drop function :"schema".gd_id_sequences();

select :"schema".gd_note_version(27);
