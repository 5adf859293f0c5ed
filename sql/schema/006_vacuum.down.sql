alter table :"schema".gen_durable reset
  (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, vacuum_index_cleanup);

comment on table :"schema".gen_durable is 'gen_durable schema 5, works with libraries from 3';
