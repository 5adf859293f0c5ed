-- What programs of ours check before they store it, the database checks of everybody else: a state that nobody could ever
-- read would stop each pick of its queue (spec [A18]). PostgreSQL writes numbers out: 1e131071 has 131,072 digits wherever
-- it is shown. Sessions that have checked say so, and do not get to the function.

-- What is wrong with a JSON value, or null. Prints it only when it is known not to be long: a number has at most 400
-- characters, and nothing takes more than four times its text when it is not compressed (#> '{}' unpacks it): a list of
-- short numbers takes 12 bytes for each three.
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

-- What is wrong with a name, or null. Besides the control characters of ASCII there are those of Unicode, and those that
-- turn around what a terminal shows behind them.
create or replace function :"schema".gd_name_fault(what text, name text, most int) returns text
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

create function :"schema".gd_check_state() returns trigger
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := coalesce(gd_json_fault('state', new.state),
                         case when jsonb_typeof(new.state) <> 'object' then 'state: $: expected object' end);
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  return null;
end
$$;

create function :"schema".gd_check_payload() returns trigger
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := gd_json_fault('payload', new.payload);
begin
  if fault is not null then
    raise exception using errcode = '22023', message = fault;
  end if;
  return null;
end
$$;

-- What gd_insert and gd_signal store is checked twice: only superusers may make a function that has a setting of ours.
-- After, not before: those before a row make each update of it lock it once more, whatever columns it changes.
create trigger gen_durable_state
after insert or update of state on :"schema".gen_durable
for each row
when (current_setting('gd.checks_json', true) is distinct from 'on')
execute function :"schema".gd_check_state();

create trigger signals_payload
after insert or update of payload on :"schema".signals
for each row
when (current_setting('gd.checks_json', true) is distinct from 'on')
execute function :"schema".gd_check_payload();

-- The nodes that live, and those that have lived lately. A node that has been silent for longer than its own lease has its
-- sessions ended: a process that is stopped, or cut off, keeps the locks of partition keys for as long as they last.
create table :"schema".gen_durable_nodes (
  incarnation text primary key,
  node        text not null,
  host        text not null,
  process     int not null,
  library     text not null,
  lease       interval not null,
  slots       int not null,
  queues      jsonb not null,
  machines    jsonb not null,
  address     text,
  sessions    jsonb not null default '[]',
  started_at  timestamptz not null default clock_timestamp(),
  seen_at     timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

comment on table :"schema".gen_durable is 'gen_durable schema 7, works with libraries from 3';
