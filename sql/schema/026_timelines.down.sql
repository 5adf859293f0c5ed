select :"schema".gd_change('gd_insert_row', 'gd_rely_on((g.id IS NULL))', '(g.id IS NULL)');
drop function :"schema".gd_rely_on(boolean);
drop trigger signals_timeline on :"schema".signals;
drop trigger gen_durable_timeline on :"schema".gen_durable;
drop function :"schema".gd_follow_before_insert();
select :"schema".gd_change('gd_insert', 'gd_next_id(', 'nextval(');
drop function :"schema".gd_next_id(regclass);
drop function :"schema".gd_follow_timeline();
drop function :"schema".gd_timeline();
drop sequence :"schema".gen_durable_timeline;

comment on table :"schema".gen_durable is 'gen_durable schema 25, works with libraries from 3';
