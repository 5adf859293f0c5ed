-- Picks that cost as much as they take, whatever lies in the table (spec [A5]); partition keys; uniqueness.

-- One machine version's eligible rows of one priority are neighbours, in pick order, ties broken by id.
drop index :"schema".gen_durable_pick;
create index gen_durable_pick on :"schema".gen_durable
  (queue, fsm, fsm_version, priority, eligible_at, id)
  where status = 'runnable' and partition_key is null;

-- The same for rows with a key; and their keys, for when the backlog of a few fills the front. Its condition is another
-- one, so that no plan made for empty tables takes it for the former.
create index gen_durable_pick_keyed on :"schema".gen_durable
  (queue, fsm, fsm_version, priority, eligible_at, id)
  where status = 'runnable' and partition_key is not null;
create index gen_durable_pick_keys on :"schema".gen_durable
  (queue, fsm, fsm_version, partition_key)
  where status = 'runnable' and partition_key > '';

-- A key's first row, and whether one of its rows executes.
create index gen_durable_key on :"schema".gen_durable
  (partition_key, status, priority, eligible_at, id)
  where partition_key is not null and status in ('runnable', 'executing');

-- Parked rows whose wake-up is due, but might collide with another row's unique key: woken one by one.
create index gen_durable_owed on :"schema".gen_durable (updated_at)
  where status = 'awaiting_signal' and wake_reason is not null;

-- A key that is free while its row is runnable and taken when it executes would make picks collide.
alter table :"schema".gen_durable add constraint gen_durable_unique_scope
  check ('runnable' = any(unique_scope) or not 'executing' = any(unique_scope));
-- An executing row whose lease is over cannot become runnable while another has its unique key, and that one cannot be
-- picked while a row of its partition key executes: they would wait for each other.
alter table :"schema".gen_durable add constraint gen_durable_unique_partition
  check (partition_key is null or not 'runnable' = any(unique_scope) or 'executing' = any(unique_scope));

comment on table :"schema".gen_durable is 'gen_durable schema 3, works with libraries from 3';
