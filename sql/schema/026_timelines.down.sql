drop trigger gen_durable_timeline on :"schema".gen_durable;
drop function :"schema".gd_follow_before_insert();
select :"schema".gd_change('gd_insert', 'gd_next_id(', 'nextval(');
drop function :"schema".gd_next_id(regclass);
drop function :"schema".gd_follow_timeline();
drop function :"schema".gd_timeline();
drop sequence :"schema".gen_durable_timeline;

comment on table :"schema".gen_durable is 'gen_durable schema 25, works with libraries from 3';
