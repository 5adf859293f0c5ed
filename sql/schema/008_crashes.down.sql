drop index :"schema".gen_durable_suspects;
drop index :"schema".gen_durable_pick_free;
alter table :"schema".gen_durable drop column crashes, drop column trials;

comment on table :"schema".gen_durable is 'gen_durable schema 7, works with libraries from 3';
