alter table :"schema".signals drop column traceparent;
alter table :"schema".gen_durable drop column traceparent;
drop function :"schema".gd_traceparent();

comment on table :"schema".gen_durable is 'gen_durable schema 24, works with libraries from 3';
