drop table :"schema".gen_durable_nodes;

drop trigger signals_payload on :"schema".signals;
drop trigger gen_durable_state on :"schema".gen_durable;
drop function :"schema".gd_check_payload();
drop function :"schema".gd_check_state();

create or replace function :"schema".gd_name_fault(what text, name text, most int) returns text
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

create or replace function :"schema".gd_json_fault(what text, value jsonb) returns text
language sql stable
begin atomic
  select case
    when value is null then what || ': expected JSON, got nothing'
    when octet_length(value::text) > 1048576
    then what || ': expected at most 1048576 bytes of JSON, got ' || octet_length(value::text)
    when jsonb_path_exists(value, 'strict $.**{512} ? (@.type() == "array" || @.type() == "object")')
    then what || ': expected at most 512 levels, got more' end;
end;

comment on table :"schema".gen_durable is 'gen_durable schema 6, works with libraries from 3';
