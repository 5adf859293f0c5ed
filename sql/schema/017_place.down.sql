comment on table :"schema".gen_durable is 'gen_durable schema 16, works with libraries from 3';
