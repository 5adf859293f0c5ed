-- Makes an instance that begins at an entry of another one's history. $1 bigint that one, $2 bigint seq of the entry, $3 text
-- queue, or empty for the same, $4 text why, or empty, $5 text who does it, or empty
-- One row: its id. What is refused is an error: see gd_fork.
select :"schema".gd_fork($1::bigint, $2::bigint, $3::text, nullif($4::text, ''), nullif($5::text, '')) as id
