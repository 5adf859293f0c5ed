-- Takes the lock of a job, for the session, unless it has it: one works on it at a time, and who is killed lets go of it. An upgrade is for nodes alone:
-- $2 bool, one asks. $1 bigint job. One row: whether this session has it.
select case
  when current_setting('gd.job', true) = $1::bigint::text then true
  when not $2::bool and exists (select from :"schema".gen_durable_jobs j where j.id = $1::bigint and j.what = 'upgrade') then false
  when pg_try_advisory_lock(hashtext('gen_durable job'), hashint8($1::bigint))
  then set_config('gd.job', $1::bigint::text, false) <> ''
  else false end as held
