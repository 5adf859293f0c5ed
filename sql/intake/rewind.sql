-- Puts an instance back to an entry of its history. $1 bigint instance, $2 bigint seq of the entry, $3 text why, or empty, $4
-- text who does it, or empty
-- One row: its seq now. What is refused is an error: see gd_rewind.
select :"schema".gd_rewind($1::bigint, $2::bigint, nullif($3::text, ''), nullif($4::text, '')) as seq
