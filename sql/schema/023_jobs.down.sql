drop function :"schema".gd_cancel_job(bigint);
drop function :"schema".gd_work_on_job(bigint, int, int);
drop function :"schema".gd_act_for(:"schema".gen_durable_jobs, bigint, boolean);
drop function :"schema".gd_begin_job(text, text, int, text, text, text, interval, text, text, int, text, text, boolean);
drop function :"schema".gd_fits(text, int, text, text, text, timestamptz, text, text, int, text, text, text, timestamptz, text);
drop table :"schema".gen_durable_jobs;
drop index :"schema".gen_durable_failed;

comment on table :"schema".gen_durable is 'gen_durable schema 22, works with libraries from 3';
