-- Ids that others have are never answered as one's own, and large states cost about what storing them costs.

-- -- ids -----------------------------------------------------------------------

-- The sequences that ids come from. A sequence that stands behind its rows gives out ids that others have: a logical replica has
-- none of its publisher's sequences, COPY and a partial restore leave them where they are, and somebody's setval may do anything.
-- With the owner's rights: who may draw ids may not see where sequences stand, nor the histories that are left of other instances.
-- sequence: null: none belongs to the ids. highest: of the instances, and of those in the ledger, which a new one must not inherit.
create function :"schema".gd_id_sequences(out ids_of text, out sequence text, out stands_at bigint, out highest bigint)
returns setof record
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  for ids_of, highest in
    select 'gen_durable', greatest((select g.id from gen_durable g order by g.id desc limit 1),
                                   (select l.instance_id from gen_durable_ledger l order by l.instance_id desc limit 1))
    union all
    select 'signals', (select s.id from signals s order by s.id desc limit 1)
    union all
    select 'gen_durable_jobs', (select j.id from gen_durable_jobs j order by j.id desc limit 1)
  loop
    sequence := pg_get_serial_sequence(pg_catalog.format('%I.%I', current_schema(), ids_of), 'id');
    stands_at := null;
    if sequence is not null then
      execute pg_catalog.format('select case when s.is_called then s.last_value else s.last_value - 1 end from %s s', sequence)
      into stands_at;
    end if;
    return next;
  end loop;
end
$$;

-- What is wrong with the ids of a table, or null.
create function :"schema".gd_ids_fault(ids_of text) returns text
language sql
begin atomic
  select case
    when s.sequence is null
    then format('%s.id: no sequence belongs to it, so that nothing new gets an id: expected "generated always as identity"', s.ids_of)
    else format('%s.id: the sequence %s stands at %s, and the highest id there is %s: what is new would get ids that others have; '
                '"gdctl check --repair" moves the sequence behind them', s.ids_of, s.sequence, s.stands_at, s.highest) end
  from :"schema".gd_id_sequences() s
  where s.ids_of = gd_ids_fault.ids_of and (s.sequence is null or s.stands_at < s.highest);
end;

-- Raises it, where something new has no id, or one that another has.
create function :"schema".gd_refuse_ids(ids_of text) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := gd_ids_fault(ids_of);
begin
  if fault is not null then
    raise exception using errcode = '55000', message = fault;
  end if;
  raise exception '%.id: another has the one that was drawn; try again', ids_of using errcode = '40001';
end
$$;

-- As before, but what was made is what the insert returns: a row that is found under the id may be anybody's. And a state that
-- gd_insert has checked is not checked again.
create or replace function :"schema".gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".durable_status[],
  out instance bigint, out duplicate boolean)
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  checks text := coalesce(current_setting('gd.checks_json', true), '');
  kept smallint;
  made record;
  holder record;
begin
  if gd_insert_row.id is null then
    perform gd_refuse_ids('gen_durable');
  end if;
  select m.history
  into kept
  from gen_durable_machines m
  where m.fsm = gd_insert_row.fsm and m.version = gd_insert_row.version and m.history > 0 and gd_keeps_history();

  perform set_config('gd.checks_json', 'on', true);
  insert into gen_durable as g (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key, unique_key,
    unique_scope, history, ledger_step, status, awaits, deadline, result)
  overriding system value
  select gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
    gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
    gd_insert_row.unique_key, gd_insert_row.unique_scope, coalesce(kept, 0),
    case when kept is not null then gd_insert_row.step end, a.status, a.awaits, a.deadline, a.result
  from gd_arrival(gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step) a
  on conflict do nothing
  returning g.id, g.updated_at
  into made;
  perform set_config('gd.checks_json', checks, true);

  if made.id is not null then
    if kept is not null then
      perform gd_enter_insert(made.id, made.updated_at, gd_insert_row.version, gd_insert_row.step,
                              case when kept = 2 then gd_insert_row.state end);
    end if;
    instance := made.id;
    duplicate := false;
    return;
  end if;

  -- Of a statement of its own: what the insert has waited for is younger than its snapshot.
  select g.id, g.fsm
  into holder
  from gen_durable g
  where g.unique_guard = gd_insert_row.unique_key;
  if holder.id is null then
    perform gd_refuse_ids('gen_durable') from gen_durable g where g.id = gd_insert_row.id;
    if gd_insert_row.unique_key is null then
      raise exception 'a trigger lets no insert of an instance through' using errcode = 'P0001';
    end if;
    raise exception 'unique_key: whoever had it has just left it; try again' using errcode = '40001';
  elsif holder.fsm <> gd_insert_row.fsm then
    raise exception 'unique_key: % is that of instance % of %', gd_key_text(gd_insert_row.unique_key), holder.id, holder.fsm
      using errcode = 'MV005';
  end if;
  instance := holder.id;
  duplicate := gd_rely_on(true);
end
$$;

-- As before, but an entry that is there already is of an instance that has gone, whose history the new one must not go on with.
create or replace function :"schema".gd_enter_insert(id bigint, at timestamptz, version int, step text, state jsonb) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
  values (gd_enter_insert.id, 0, gd_enter_insert.at, gd_enter_insert.version, 'insert', gd_enter_insert.step, 0,
    gd_enter_insert.state)
  on conflict do nothing;
  if not found then
    perform gd_refuse_ids('gen_durable');
  end if;
end
$$;

-- Forks and jobs draw their ids as they are inserted. The entry of a fork may meet one of an instance that has gone.
select :"schema".gd_change('gd_fork', 'return made;
end', 'return made;
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
end');
select :"schema".gd_change('gd_begin_job', 'return made;
end', 'return made;
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
end');

-- A signal that was not stored, though there is room: another has its dedup key, or its id. In a snapshot of its own.
create function :"schema".gd_not_stored(target bigint, dedup_key text) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform from signals s where s.target_id = target and s.dedup_key = gd_not_stored.dedup_key;
  if not found then
    return gd_refuse_ids('signals');
  end if;
  return 'duplicate';
end
$$;

select :"schema".gd_change('gd_signal_id', 'ON CONFLICT(target_id, dedup_key) DO NOTHING', 'ON CONFLICT DO NOTHING');
select :"schema".gd_change('gd_signal_id', 'ELSE ''duplicate''::text',
  'ELSE gd_not_stored(gd_signal_id.target, gd_signal_id.dedup_key)');

-- What can be seen without reading much: sequences behind their rows, indexes that do not hold what they say, and triggers that
-- somebody has switched off. repairs: gd_repair mends it.
create function :"schema".gd_check(out fault text, out repairs boolean) returns setof record
language sql
begin atomic
  select f.fault, s.sequence is not null
  from :"schema".gd_id_sequences() s
  cross join lateral :"schema".gd_ids_fault(s.ids_of) f (fault)
  where f.fault is not null
  union all
  select format('%s: the index %s is not valid: expected "reindex index %s"', i.indrelid::regclass, i.indexrelid::regclass,
                i.indexrelid::regclass), false
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and c.relname in ('gen_durable', 'signals')
    and not i.indisvalid
  union all
  select format('%s: there is no unique index %s.%s, without which a key may be had twice', u.relation, :'schema', u.name), false
  from (values ('gen_durable', 'gen_durable_pkey'), ('gen_durable', 'gen_durable_unique'), ('signals', 'signals_pkey'),
               ('signals', 'signals_target_id_dedup_key_key'), ('gen_durable_ledger', 'gen_durable_ledger_pkey'))
    u (relation, name)
  where not exists (
    select from pg_index i
    join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and c.relname = u.name and i.indisunique)
  union all
  select format('%s: the trigger %s is switched off: expected "alter table %s enable trigger %I"', t.tgrelid::regclass, t.tgname,
                t.tgrelid::regclass, t.tgname), false
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  join pg_proc p on p.oid = t.tgfoid
  where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and p.pronamespace = c.relnamespace and p.proname like 'gd\_%'
    and t.tgenabled in ('D', 'R');
end;

-- Moves each sequence that stands behind its rows to the highest id. Never back: nobody draws until this transaction ends, and who
-- has drawn is waited for, as long as lock_timeout lets it.
create function :"schema".gd_repair(out repaired text) returns setof text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  behind record;
  now_at record;
begin
  for behind in
    select s.ids_of, s.sequence from gd_id_sequences() s where s.stands_at < s.highest
  loop
    execute pg_catalog.format('alter sequence %s as bigint', behind.sequence);
    select s.stands_at, s.highest into now_at from gd_id_sequences() s where s.ids_of = behind.ids_of;
    if now_at.stands_at < now_at.highest then
      execute pg_catalog.format('alter sequence %s restart with %s', behind.sequence, now_at.highest + 1);
      repaired := pg_catalog.format('%s.id: the sequence %s was moved from %s to %s', behind.ids_of, behind.sequence,
                                    now_at.stands_at, now_at.highest);
      return next;
    end if;
  end loop;
end
$$;

-- -- large states --------------------------------------------------------------

-- What is wrong with a JSON value, or null. Numbers that PostgreSQL prints with more characters than they take are looked for
-- first: of what is left, none takes more than it would have as text. So it can be printed, once; and only where that has 200
-- digits in a row is there a number to be measured. (x + 1) / 3 tells how many decimals a zero is printed with.
create or replace function :"schema".gd_json_fault(what text, value jsonb) returns text
language sql stable
begin atomic
  select case
    when value is null then what || ': expected JSON, got nothing'
    when pg_column_size(value #> '{}') > 4194816 then what || ': expected at most 1048576 bytes of JSON, got more'
    when jsonb_path_exists(value, 'strict $.**{512} ? (@.type() == "array" || @.type() == "object")')
    then what || ': expected at most 512 levels, got more'
    when jsonb_path_exists(value, cast('strict $.** ? (@ < 1e-200 || @ >= 1e200) ? (@ >= 1e400 || @ <= -1e400
           || @ < 1e-400 && @ > -1e-400 && (@ != 0 || (@ + 1) / 3 > 0.' || repeat('3', 398) || '))' as jsonpath))
    then what || ': expected numbers that PostgreSQL prints with at most 400 characters, got a longer one'
    else (
      select case
        when p.printed ~ '[0-9]{200}' and exists (
          select
          from jsonb_array_elements(jsonb_path_query_array(value, 'strict $.** ? (@.type() == "number")')) v (number)
          where length(v.number::text) > 400)
        then what || ': expected numbers that PostgreSQL prints with at most 400 characters, got a longer one'
        when octet_length(p.printed) > 1048576
        then what || ': expected at most 1048576 bytes of JSON, got ' || octet_length(p.printed) end
      from (select value::text as printed offset 0) p)
    end;
end;

-- As before, but the trigger does not check again what gd_signal_id has checked.
select :"schema".gd_change('gd_signal', 'begin
  return gd_signal_id(', '  checks text := coalesce(current_setting(''gd.checks_json'', true), '''');
  answer text;
begin
  perform set_config(''gd.checks_json'', ''on'', true);
  answer := gd_signal_id(');
select :"schema".gd_change('gd_signal', 'gd_signal.dedup_key);
end', 'gd_signal.dedup_key);
  perform set_config(''gd.checks_json'', checks, true);
  return answer;
end');

-- The state of a transition is checked before, by gd_transition or by the program that sends it.
select :"schema".gd_change('gd_move', '  -- A state that was there before has been checked, by whoever''s limits.
  if new_state is null then
    perform set_config(''gd.checks_json'', ''on'', true);
  end if;', '  -- The state has been checked: a new one by who calls this, one that was there before by whoever''s limits.
  perform set_config(''gd.checks_json'', ''on'', true);');

-- lz4 packs faster than PostgreSQL's own method by far, and unpacks faster, too. A server that was built without it goes on as
-- before. What is stored stays as it is until it is written again.
create function :"schema".gd_pack_by(method text) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  x record;
begin
  for x in
    values ('gen_durable', 'state'), ('gen_durable', 'result'), ('signals', 'payload'), ('gen_durable_ledger', 'state'),
      ('gen_durable_ledger', 'metadata')
  loop
    execute pg_catalog.format('alter table %I alter column %I set compression %s', x.column1, x.column2, method);
  end loop;
exception when feature_not_supported then
  raise notice 'this server has no %: states are packed by its own method', method;
end
$$;

select :"schema".gd_pack_by('lz4');
drop function :"schema".gd_pack_by(text);

-- -- times ---------------------------------------------------------------------

-- As before, but exact for all times that a state can hold, until the year 9999.
create or replace function :"schema".gd_us(at timestamptz) returns bigint
language sql immutable
begin atomic
  select case when gd_us.at is not null then (extract(epoch from greatest(
    least(gd_us.at, timestamptz '9999-12-31 23:59:59.999999Z'), timestamptz '0001-01-01 00:00:00Z')) * 1000000)::bigint end;
end;

-- As before, but years before our era are told from those of it.
create or replace function :"schema".gd_time_text(at timestamptz) returns text
language sql stable
begin atomic
  select case when isfinite(gd_time_text.at)
    then to_char(gd_time_text.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
         || case when gd_time_text.at < timestamptz '0001-01-01 00:00:00Z' then ' BC' else '' end
    else gd_time_text.at::text end;
end;

select :"schema".gd_note_version(28);
