select :"schema".gd_change('gd_move', '
        expires_at = case when there.status::text = ''done''
          then gd_expiry(here.fsm, here.fsm_version, text ''done'', here.unique_scope) end,', '');
select :"schema".gd_change('gd_put_back', '
      expires_at = case when arrival.status::text = ''done''
        then gd_expiry(was.fsm, was.fsm_version, text ''done'', was.unique_scope) end,', '');
select :"schema".gd_change('gd_act', '
        expires_at = case what when ''stop'' then gd_expiry(here.fsm, here.fsm_version, text ''failed'', here.unique_scope)
                               when ''retry'' then null else g.expires_at end,', '');
drop function :"schema".gd_change(text, text, text);

drop function :"schema".gd_expiry(text, int, text, text[]);
drop function :"schema".gd_deletes();
alter table :"schema".gen_durable_machines drop column retention;
drop index :"schema".gen_durable_expires;
alter table :"schema".gen_durable drop column expires_at;

comment on table :"schema".gen_durable is 'gen_durable schema 23, works with libraries from 3';
