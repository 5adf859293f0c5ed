-- The last ids that were drawn for instances, for signals and for jobs, by transactions that have not committed, too; 0: none. Whoever
-- makes a row due draws one of the first two. And the queues that operators have paused. Each node asks this many times a second, so it
-- reads three rows, and a table that is empty, or nearly.
select
  coalesce(pg_sequence_last_value((quote_ident(:'schema') || '.gen_durable_id_seq')::regclass), 0) as instances,
  coalesce(pg_sequence_last_value((quote_ident(:'schema') || '.gen_durable_signals_id_seq')::regclass), 0) as signals,
  coalesce(pg_sequence_last_value((quote_ident(:'schema') || '.gen_durable_jobs_id_seq')::regclass), 0) as jobs,
-- include parts/paused.sql
