update :"schema".gen_durable set history = 0 where history is null;
alter table :"schema".gen_durable alter column history set default 0, alter column history set not null;

comment on table :"schema".gen_durable is 'gen_durable schema 15, works with libraries from 3';
