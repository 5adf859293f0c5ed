-- Which of these names nobody has. $1 text[] one queue, or empty, $2 text[] one machine, or empty; of it: $3 bigint[] one version, or
-- empty, $4 text[] one step, or empty. One row: a sentence, as of gd_unknown, or null: all are known.
select :"schema".gd_unknown(($1::text[])[1], ($2::text[])[1], ($3::bigint[])[1]::int, ($4::text[])[1]) as unknown
