select :"schema".gd_change('gd_act', '
        excused = case when what = ''retry'' then null else g.excused end,', '');
select :"schema".gd_change('gd_put_back', 'excused = null, ', '');
select :"schema".gd_change('gd_move', 'excused = null, ', '');
drop table :"schema".gen_durable_crashes;
alter table :"schema".gen_durable drop column crashed_in, drop column excused;

select :"schema".gd_note_version(28);
