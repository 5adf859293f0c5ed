-- Which ends of processes a row is charged with, and who has caused some of them: the others are not charged with these. A process
-- is told by a hash of its incarnation (hashtextextended), or of a worker's.
-- Of a row with `crashes`, the last so many ends, or as many as are remembered, the oldest first; without crashes it says nothing.
-- Reaps write it, never an outcome: no index has it, and where nothing crashes it is null.
-- excused: how many ends of its process another row has caused, since an outcome; null: none. They are no failures of the step:
-- these are attempt - crashes - excused.
alter table :"schema".gen_durable
  add column crashed_in bigint[],
  add column excused    int;

-- Written once, and deleted: there is nothing to wait for in it.
create table :"schema".gen_durable_crashes (
  process     bigint not null,
  instance_id bigint not null,           -- who has caused its end; or would have, while the lease of its trial is in force
  token       text,                      -- of that lease; null: of none
  at          timestamptz not null default clock_timestamp(),
  known       boolean not null,          -- false: a trial has begun, no more
  open        boolean not null default false -- there may be suspects that are still charged with it
);
create index gen_durable_crashes_process on :"schema".gen_durable_crashes (process);

select :"schema".gd_change('gd_move', 'crashes = 0, trials = 0', 'crashes = 0, excused = null, trials = 0');
select :"schema".gd_change('gd_put_back', 'crashes = 0, trials = 0', 'crashes = 0, excused = null, trials = 0');
select :"schema".gd_change('gd_act', 'crashes = case when what = ''retry'' then 0 else g.crashes end,',
  'crashes = case when what = ''retry'' then 0 else g.crashes end,
        excused = case when what = ''retry'' then null else g.excused end,');

select :"schema".gd_note_version(29);
