-- Steps that run ahead update their row without leaving its page, if there is room on it and no index has to know: so
-- no index has updated_at.
alter table :"schema".gen_durable set (fillfactor = 80);

drop index :"schema".gen_durable_owed;
create index gen_durable_owed on :"schema".gen_durable (id)
  where status = 'awaiting_signal' and wake_reason is not null;

comment on table :"schema".gen_durable is 'gen_durable schema 5, works with libraries from 3';
