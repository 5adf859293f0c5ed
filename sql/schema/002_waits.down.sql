-- Tombstones go: version 1 would take them for signals that are still in the inbox.
drop table :"schema".gen_durable_machines;

delete from :"schema".signals where consumed_at is not null;
drop index :"schema".signals_target;
create index signals_target on :"schema".signals (target_id, name);
alter table :"schema".signals drop column consumed_at;

drop index :"schema".gen_durable_deadline;
alter table :"schema".gen_durable drop column deadline, drop column wake_reason;

comment on table :"schema".gen_durable is 'gen_durable schema 1, works with libraries from 1';
