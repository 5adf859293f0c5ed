alter function :"schema".gd_in_step(text, text, text, bigint, int) reset all;

comment on table :"schema".gen_durable is 'gen_durable schema 19, works with libraries from 3';
