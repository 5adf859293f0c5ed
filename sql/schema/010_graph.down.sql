alter table :"schema".gen_durable_machines drop column transitions;

comment on table :"schema".gen_durable is 'gen_durable schema 9, works with libraries from 3';
