drop function :"schema".gd_fork(bigint, bigint, text, text, text);
drop function :"schema".gd_rewind(bigint, bigint, text, text);
drop function :"schema".gd_mover_fault(text, text);
drop function :"schema".gd_entry(bigint, text, bigint);

comment on table :"schema".gen_durable is 'gen_durable schema 13, works with libraries from 3';
