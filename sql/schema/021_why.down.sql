drop function :"schema".gd_why(bigint, text, bytea);
drop function :"schema".gd_time_text(timestamptz);
drop function :"schema".gd_shell_text(text);
drop function :"schema".gd_us(timestamptz);
drop table :"schema".gen_durable_queues;

comment on table :"schema".gen_durable is 'gen_durable schema 20, works with libraries from 3';
