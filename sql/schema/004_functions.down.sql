drop function :"schema".gd_status(bigint);
drop function :"schema".gd_signal(bigint, text, jsonb, text);
drop function :"schema".gd_insert(text, jsonb, int, text, text, int, timestamptz, interval, text, text, text[]);
drop function :"schema".gd_insert_row(bigint, text, int, text, jsonb, text, smallint, timestamptz, text, bytea,
  :"schema".durable_status[]);
drop function :"schema".gd_json_fault(text, jsonb);
drop function :"schema".gd_name_fault(text, text, int);
drop function :"schema".gd_refuse(text, text);

comment on table :"schema".gen_durable is 'gen_durable schema 3, works with libraries from 3';
