-- A pick passes over the index entries of rows that were worked off since the last vacuum. By default that comes when a
-- fifth of the table has changed (with ten million finished rows, after two million updates), and leaves the indexes
-- alone if only few pages have. So it comes by the number of changes, whatever the size, and cleans the indexes.
alter table :"schema".gen_durable set
  (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on);

comment on table :"schema".gen_durable is 'gen_durable schema 6, works with libraries from 3';
