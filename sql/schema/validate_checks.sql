-- Behind fail_unrunnable: the rows that are there fulfil the checks, and the planner may know. Holds up neither readers nor
-- writers.
alter table :"schema".gen_durable
  validate constraint gen_durable_executing,
  validate constraint gen_durable_awaiting
