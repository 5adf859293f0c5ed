drop table :"schema".gen_durable_nodes;

drop trigger signals_payload on :"schema".signals;
drop trigger gen_durable_state on :"schema".gen_durable;
drop function :"schema".gd_check_payload();
drop function :"schema".gd_check_state();

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
