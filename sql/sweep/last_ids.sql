-- The last ids that were drawn for instances and for signals, by transactions that have not committed, too; 0: none. Whoever
-- makes a row due draws one. Each node asks this many times a second, so it reads two rows and nothing else.
select
  coalesce(pg_sequence_last_value((quote_ident(:'schema') || '.gen_durable_id_seq')::regclass), 0) as instances,
  coalesce(pg_sequence_last_value((quote_ident(:'schema') || '.signals_id_seq')::regclass), 0) as signals
