-- What may be stored: names, JSON, and what is given as a reason.

-- Raises an error. Holds no name of ours: nothing is substituted inside the quotes.
create function :"schema"._gd_refuse(code text, message text) returns bigint
language plpgsql
as $$
begin
  raise exception using errcode = $1, message = $2;
end
$$;

-- What is wrong with a name, or null. Besides the control characters of ASCII there are those of Unicode, and those that
-- turn around what a terminal shows behind them.
create function :"schema"._gd_name_fault(what text, name text, most int) returns text
language sql stable
begin atomic
  select what || ': expected 1 to ' || most || ' bytes of UTF-8 without control characters, got '
    || case when coalesce(name, '') = '' then 'nothing'
            when octet_length(name) > most then octet_length(name) || ' bytes'
            else case when p.bad < 128 then 'byte 0x' || lpad(to_hex(p.bad), 2, '0')
                      else 'U+' || upper(lpad(to_hex(p.bad), 4, '0')) end
                 || ' at offset ' || octet_length(p.good) end
  from (
    select g.good, ascii(substr(name, length(g.good) + 1, 1)) as bad
    from (
      select substring(name from '^[^\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*') as good
    ) g
  ) p
  where coalesce(octet_length(name), 0) not between 1 and most or p.good <> name;
end;

-- What is wrong with a JSON value, or null. Numbers that PostgreSQL prints with more characters than they take are looked for
-- first: of what is left, none takes more than it would have as text. So it can be printed, once; and only where that has 200
-- digits in a row is there a number to be measured. Each comparison of a filter costs as much as a third of the filter, and one of
-- all leaves at once less: so the filter has one for the numbers that most are. What is no container has no leaves. (x + 1) / 3
-- tells how many decimals a zero, or what is almost one, is printed with.
create function :"schema"._gd_json_fault(what text, value jsonb) returns text
language sql stable
begin atomic
  select case
    when v.value is null then what || ': expected JSON, got nothing'
    when pg_column_size(v.value) > 4194816 then what || ': expected at most 1048576 bytes of JSON, got more'
    when jsonb_path_exists(v.value, 'strict $.**{512} ? (@.type() == "array" || @.type() == "object")')
    then what || ': expected at most 512 levels, got more'
    when v.value @@ 'lax $ >= 1e400 || $.**{last} >= 1e400'
      or jsonb_path_exists(v.value, cast('strict $.** ? (@ < 1e-400) ? (@ <= -1e400 || @ > -1e-400 && (@ + 1) / 3 > 0.'
           || repeat('3', 398) || ')' as jsonpath))
    then what || ': expected numbers that PostgreSQL prints with at most 400 characters, got a longer one'
    else (
      select case
        when p.printed ~ '[0-9]{200}' and exists (
          select
          from jsonb_array_elements(jsonb_path_query_array(v.value, 'strict $.** ? (@.type() == "number")')) x (number)
          where length(x.number::text) > 400)
        then what || ': expected numbers that PostgreSQL prints with at most 400 characters, got a longer one'
        when octet_length(p.printed) > 1048576
        then what || ': expected at most 1048576 bytes of JSON, got ' || octet_length(p.printed) end
      from (select v.value::text as printed offset 0) p)
    end
  from (select _gd_json_fault.value #> '{}' as value offset 0) v; -- unpacked once
end;

-- What is wrong with who moves an instance from outside and why, or null.
create function :"schema"._gd_mover_fault(reason text, by text) returns text
language sql stable
begin atomic
  select coalesce(
    case when octet_length(_gd_mover_fault.reason) > 8192
         then 'reason: expected at most 8192 bytes, got ' || octet_length(_gd_mover_fault.reason) end,
    case when _gd_mover_fault.by is not null then :"schema"._gd_name_fault('by', _gd_mover_fault.by, 255) end);
end;

-- What programs of ours check before they store it, the database checks of everybody else: a payload, or a state (due.sql), that
-- nobody could ever read would stop each pick of its queue. PostgreSQL writes numbers out: 1e131071 has 131,072 digits wherever it
-- is shown. Sessions that have checked say so (gd.trusted), and do not get to the function.
create function :"schema"._gd_check_payload() returns trigger
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := _gd_json_fault('payload', new.payload);
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  return null;
end
$$;

create trigger gen_durable_signals_payload
after insert or update of payload on :"schema".gen_durable_signals
for each row
when (coalesce(current_setting('gd.trusted', true), '') not in ('json', 'all'))
execute function :"schema"._gd_check_payload();
