delete from :"schema".gen_durable_queues;
drop function :"schema".gd_resume(text);
drop function :"schema".gd_pause(text, text, text);
drop function :"schema".gd_requeue(bigint, text, int, text, text, text, bytea);
drop function :"schema".gd_run_now(bigint, text, text, text, bytea);
drop function :"schema".gd_stop(bigint, text, text, text, bytea);
drop function :"schema".gd_retry(bigint, text, text, text, bytea);
drop function :"schema".gd_operate(text, bigint, text, bytea, text, int, text, text);
drop function :"schema".gd_act_fault(text, text, int, text, text);
drop function :"schema".gd_act(text, bigint, bytea, text, smallint, text, text, boolean, int, text, bigint);
drop function :"schema".gd_act_statuses(text);
drop function :"schema".gd_enter_act(
  bigint, bigint, timestamptz, int, text, text, text, int, text, text, text, text, jsonb, jsonb);

comment on table :"schema".gen_durable is 'gen_durable schema 21, works with libraries from 3';
