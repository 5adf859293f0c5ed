alter table :"schema".gen_durable_machines drop column transitions;

drop function :"schema".gd_note_version(int);
comment on table :"schema".gen_durable is 'gen_durable schema 9, works with libraries from 3';
