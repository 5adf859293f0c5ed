-- The rights of a role that operates, behind read.sql: what its verbs do is done with the rights of the functions' owner, and entered
-- under the role's name, or whom it names. A migration that makes a function anew takes that back, so run this again behind each.
-- Leave out what the role does not need. Nobody else has these functions then, so the role of the nodes, which work off jobs by
-- them, is named, too.
-- psql -v schema=public -v role=ann -v engine=worker -f operate.sql
begin;
revoke create on schema :"schema" from public;
alter function :"schema"._gd_operate security definer;
alter function :"schema".gd_pause security definer;
alter function :"schema".gd_resume security definer;
alter function :"schema".gd_begin_job security definer;
alter function :"schema"._gd_work_on_job security definer;
alter function :"schema".gd_cancel_job security definer;
revoke execute on function :"schema"._gd_operate, :"schema".gd_pause, :"schema".gd_resume, :"schema".gd_begin_job,
  :"schema"._gd_work_on_job, :"schema".gd_cancel_job from public;
grant execute on function :"schema"._gd_operate, :"schema".gd_pause, :"schema".gd_resume, :"schema".gd_begin_job,
  :"schema"._gd_work_on_job, :"schema".gd_cancel_job to :"role", :"engine";
commit;
