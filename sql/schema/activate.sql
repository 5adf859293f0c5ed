-- Says that only libraries which know this version may work with it from now on. The version is the newest one.
comment on table :"schema".gen_durable is 'gen_durable schema 10, works with libraries from 10'
