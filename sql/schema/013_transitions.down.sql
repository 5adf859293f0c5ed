drop function :"schema".gd_arrival(text, int, text);

comment on table :"schema".gen_durable is 'gen_durable schema 12, works with libraries from 3';
