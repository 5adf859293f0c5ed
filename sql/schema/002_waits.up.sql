-- What the specification adds to a wait: deadlines, the reason of a wake-up, signals that
-- are remembered after their consumption (tombstones), and the machines that nodes know.
alter table :"schema".gen_durable
  add column deadline    timestamptz,
  add column wake_reason text check (wake_reason in ('signal', 'timeout'));

create index gen_durable_deadline on :"schema".gen_durable (deadline)
  where status = 'awaiting_signal' and deadline is not null;

alter table :"schema".signals add column consumed_at timestamptz;

-- The inbox: tombstones stay out of it. The unique constraint serves the foreign key.
drop index :"schema".signals_target;
create index signals_target on :"schema".signals (target_id, name)
  where consumed_at is null;

create table :"schema".gen_durable_machines (
  fsm          text not null,
  version      int not null,
  initial_step text not null,
  queue        text not null,
  steps        text[] not null,
  primary key (fsm, version)
);

comment on table :"schema".gen_durable is 'gen_durable schema 2, works with libraries from 2';
