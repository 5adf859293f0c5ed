-- Ends of the process that ran a row's step, and how often the step has run alone since it got anywhere; and the rows of
-- which a process runs few at once for that.
alter table :"schema".gen_durable
  add column crashes int not null default 0,
  add column trials  int not null default 0;

-- A pick does not pass over suspects. Its condition is written in another way than that of gen_durable_pick, which
-- older libraries need: no plan takes that one for it.
create index gen_durable_pick_free on :"schema".gen_durable
  (queue, fsm, fsm_version, priority, eligible_at, id)
  where status = 'runnable' and (partition_key is null) is true and crashes < 2;

-- Suspects, with a partition key or without.
create index gen_durable_suspects on :"schema".gen_durable
  (queue, fsm, fsm_version, priority, eligible_at, id)
  where status = 'runnable' and crashes >= 2;

comment on table :"schema".gen_durable is 'gen_durable schema 8, works with libraries from 3';
