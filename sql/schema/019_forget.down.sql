alter table :"schema".gen_durable_machines drop column forget_dedup_after;

comment on table :"schema".gen_durable is 'gen_durable schema 18, works with libraries from 3';
