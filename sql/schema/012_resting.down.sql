alter table :"schema".gen_durable_machines drop column outside;

comment on table :"schema".gen_durable is 'gen_durable schema 11, works with libraries from 3';
