-- What a person has written by hand is held against what a machine's states, and its signals' payloads, look like.

-- What is wrong with a value itself, whatever is in it, as behind its path; or null. Integers as the library reads them: 1.0 is none.
create function :"schema"._gd_kind_fault(shape jsonb, value jsonb) returns text
language sql immutable
begin atomic
  select case
    when s.type = 'integer' and (k.kind <> 'number' or _gd_kind_fault.value::text !~ '^-?[0-9]+$'
      or _gd_kind_fault.value < _gd_kind_fault.shape -> 'minimum' or _gd_kind_fault.value > _gd_kind_fault.shape -> 'maximum')
    then format('expected integer in [%s, %s], got %s', _gd_kind_fault.shape ->> 'minimum', _gd_kind_fault.shape ->> 'maximum', k.got)
    when s.type not in ('integer', k.kind) then format('expected %s, got %s', s.type, k.got)
    when _gd_kind_fault.shape ->> 'format' = 'date-time' and (_gd_kind_fault.value #>> '{}')
      !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$'
    then 'expected time like "2024-02-29T12:00:00.000000Z", got ' || k.got
    when k.kind <> 'string' and s.names is not null or not (_gd_kind_fault.value #>> '{}') = any(s.names)
    then format('expected %s, got %s', :"schema"._gd_one_of(s.names), k.got)
         || case when k.kind = 'string' then :"schema"._gd_meant(_gd_kind_fault.value #>> '{}', s.names) else '' end
    when k.elements not between (_gd_kind_fault.shape ->> 'minItems')::int and (_gd_kind_fault.shape ->> 'maxItems')::int
    then format('expected %s elements, got %s', _gd_kind_fault.shape ->> 'minItems', k.elements) end
  from (
    select _gd_kind_fault.shape ->> 'type' as type,
      case when _gd_kind_fault.shape ? 'enum' then array(select jsonb_array_elements_text(_gd_kind_fault.shape -> 'enum')) end as names) s
  cross join lateral (
    select t.kind, case when t.kind = 'array' then jsonb_array_length(_gd_kind_fault.value) end as elements,
      t.kind || case when t.kind in ('number', 'string', 'boolean') then ' ' || left(_gd_kind_fault.value::text, 60) else '' end as got
    from (select jsonb_typeof(_gd_kind_fault.value) as kind) t) k;
end;

-- What of a value the library would not read, or would leave out, from its path on; null: nothing. Members that are missing take their
-- defaults. A shape of {} is anything.
create function :"schema"._gd_shape_fault(shape jsonb, value jsonb, path text) returns text
language plpgsql immutable
set search_path = :"schema", pg_temp
as $$
#variable_conflict use_variable
declare
  known text[];
  part record;
  fault text;
begin
  if shape ? 'anyOf' then
    return case when jsonb_typeof(value) <> 'null' then _gd_shape_fault(shape #> '{anyOf,0}', value, path) end;
  end if;
  fault := _gd_kind_fault(shape, value);
  if fault is not null then
    return path || ': ' || fault;
  elsif jsonb_typeof(value) = 'object' and shape ? 'type' then
    known := array(select jsonb_object_keys(shape -> 'properties'));
    for part in
      select x.key as name, x.value as content, coalesce(shape -> 'properties' -> x.key, nullif(shape -> 'additionalProperties', 'false')) as shape
      from jsonb_each(value) x
    loop
      fault := case
        when part.shape is null
        then path || '.' || left(part.name, 255) || ': unknown key, expected ' || _gd_one_of(known) || _gd_meant(part.name, known)
        else _gd_shape_fault(part.shape, part.content, path || '.' || left(part.name, 255)) end;
      exit when fault is not null;
    end loop;
  elsif jsonb_typeof(value) = 'array' and shape ? 'items' then
    for part in select x.n - 1 as n, x.content from jsonb_array_elements(value) with ordinality x (content, n) loop
      fault := _gd_shape_fault(shape -> 'items', part.content, format('%s[%s]', path, part.n));
      exit when fault is not null;
    end loop;
  end if;
  return fault;
end
$$;

-- Of a machine that nodes have made known: what is wrong with a state of the version that an insert means.
create function :"schema"._gd_state_fault(fsm text, version int, state jsonb) returns text
language sql stable
begin atomic
  select :"schema"._gd_shape_fault(m.shape -> 'state', _gd_state_fault.state, 'state: $')
  from :"schema"._gd_choose_version(_gd_state_fault.fsm, _gd_state_fault.version) v
  join :"schema".gen_durable_machines m on m.fsm = _gd_state_fault.fsm and m.version = v.version
  where m.shape ? 'state';
end;

-- What is wrong with a signal to an instance, as far as its machine tells: a name that it neither tells of nor waits for now. Where it
-- tells of none: one that is almost what it waits for. A payload that no step can read. Null: nothing, or there is no such instance.
create function :"schema"._gd_signal_fault(target bigint, name text, payload jsonb) returns text
language sql stable
begin atomic
  select case
    when m.shape -> 'signals' ? _gd_signal_fault.name
    then :"schema"._gd_shape_fault(m.shape -> 'signals' -> _gd_signal_fault.name, _gd_signal_fault.payload, 'payload: $')
    when _gd_signal_fault.name = any(w.waits) then null
    when m.shape ? 'signals'
    then format('signal name: %s v%s takes %s, got %s', left(g.fsm, 255), g.fsm_version, :"schema"._gd_one_of(k.known),
                left(_gd_signal_fault.name, 255)) || :"schema"._gd_meant(_gd_signal_fault.name, k.known || w.waits)
    when exists (
      select from unnest(w.waits) x (name)
      where :"schema"._gd_distance(x.name, _gd_signal_fault.name)
            <= greatest(1, least(length(x.name), length(_gd_signal_fault.name)) / 3))
    then format('signal name: instance %s waits for %s, got %s', g.id, array_to_string(w.waits, '|'), left(_gd_signal_fault.name, 255))
         || :"schema"._gd_meant(_gd_signal_fault.name, w.waits) end
  from :"schema".gen_durable g
  left join :"schema".gen_durable_machines m on m.fsm = g.fsm and m.version = g.fsm_version
  cross join lateral (select array_remove(array_remove(g.awaits || coalesce(g.awaits_also, '{}'), null), '') as waits) w
  cross join lateral (select array(select jsonb_object_keys(m.shape -> 'signals')) as known) k
  where g.id = _gd_signal_fault.target;
end;
