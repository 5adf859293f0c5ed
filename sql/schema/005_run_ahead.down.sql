drop index :"schema".gen_durable_owed;
create index gen_durable_owed on :"schema".gen_durable (updated_at)
  where status = 'awaiting_signal' and wake_reason is not null;

alter table :"schema".gen_durable reset (fillfactor);

comment on table :"schema".gen_durable is 'gen_durable schema 4, works with libraries from 3';
