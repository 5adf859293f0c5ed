-- Makes an instance that begins at an entry of another one's history. $1 bigint that one, or $6 bytea[] one unique key that it
-- has now, else empty, $2 bigint seq of the entry, $3 text queue, or empty for the same, $4 text why, or empty, $5 text who does
-- it, or empty
-- One row: its id. What is refused is an error: see gd_fork.
select :"schema".gd_fork(case when cardinality($6::bytea[]) = 0 then $1::bigint end, $2::bigint, $3::text,
  nullif($4::text, ''), nullif($5::text, ''), key_bytes => ($6::bytea[])[1]) as id
