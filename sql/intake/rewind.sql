-- Puts an instance back to an entry of its history. $1 bigint instance, or $5 bytea[] one unique key that it has now, else
-- empty, $2 bigint seq of the entry, $3 text why, or empty, $4 text who does it, or empty
-- One row: its seq and status now. What is refused is an error: see _gd_rewind.
select p.seq_now as seq, p.status_now as status
from :"schema"._gd_rewind(case when cardinality($5::bytea[]) = 0 then $1::bigint end, ($5::bytea[])[1], $2::bigint,
  nullif($3::text, ''), nullif($4::text, '')) p
