-- Back to nothing.
drop table :"schema".signals;
drop table :"schema".gen_durable;
drop type :"schema".durable_status;
