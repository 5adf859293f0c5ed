drop function :"schema".gd_cancel_job(bigint);
drop function :"schema".gd_upgrade(bigint, bigint, bigint, bigint[], bigint[], text[]);
drop function :"schema".gd_work_on_job(bigint, int, int);
drop function :"schema".gd_refused(:"schema".gen_durable_jobs, bigint, text);
drop function :"schema".gd_try_for(:"schema".gen_durable_jobs, bigint, bigint);
drop function :"schema".gd_act_for(:"schema".gen_durable_jobs, bigint, boolean, bigint);
drop function :"schema".gd_begin_job(
  text, text, int, text, text, text, interval, text, text, int, text, text, boolean, int, jsonb, bigint, bytea);
drop function :"schema".gd_upgrade_fault(text, text, int, int, jsonb);
drop function :"schema".gd_fits(text, int, text, text, text, timestamptz, text, text, int, text, text, text, timestamptz, text);
drop table :"schema".gen_durable_jobs;
drop index :"schema".gen_durable_failed;

comment on table :"schema".gen_durable is 'gen_durable schema 22, works with libraries from 3';
