alter table :"schema".gen_durable drop constraint gen_durable_unique_partition;
alter table :"schema".gen_durable drop constraint gen_durable_unique_scope;
drop index :"schema".gen_durable_owed;
drop index :"schema".gen_durable_key;
drop index :"schema".gen_durable_pick_keys;
drop index :"schema".gen_durable_pick_keyed;
drop index :"schema".gen_durable_pick;
create index gen_durable_pick on :"schema".gen_durable (queue, priority, eligible_at)
  where status = 'runnable';

comment on table :"schema".gen_durable is 'gen_durable schema 2, works with libraries from 2';
