-- Makes a job. $1 text what: retry, stop, run_now, move or upgrade; $2 to $8 its filter, as $1 to $7 of list; $9 text[] one queue that they are
-- moved to, or empty; $10 bigint[] one priority, or empty; $11 text why, or empty; $12 text who, or empty: the user; $13 bool whether
-- it only counts; of an upgrade: $14 bigint[] its version, $15 text its steps, as JSON, or empty, and, without a filter, $16 bigint[]
-- one instance, or $17 bytea[] one unique key that it has now; $18 bool whether
-- names that nobody has are meant. One row: its number. What is refused is an error: see gd_begin_job.
select :"schema".gd_begin_job($1::text, ($2::text[])[1], ($3::bigint[])[1]::int, ($4::text[])[1], ($5::text[])[1], ($6::text[])[1],
  ($7::bigint[])[1] * interval '1 microsecond', ($8::text[])[1], ($9::text[])[1], ($10::bigint[])[1]::int, nullif($11::text, ''),
  nullif($12::text, ''), $13::bool, ($14::bigint[])[1]::int, nullif($15::text, '')::jsonb, ($16::bigint[])[1],
  ($17::bytea[])[1], $18::bool) as id
