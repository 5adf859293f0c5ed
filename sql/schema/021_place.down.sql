comment on table :"schema".gen_durable is 'gen_durable schema 20, works with libraries from 3';
