-- How much of the table a sample of $1 pages is, in percent.
(select least(100, 100.0 * $1::int * current_setting('block_size')::int / greatest(1,
  pg_relation_size(format('%I.gen_durable', :'schema')::regclass)))::float8)
