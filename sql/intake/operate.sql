-- Does something with one instance. $1 text what: retry, stop, run_now, move, discard, replace or erase, $2 bigint id, or $3 bytea[]
-- one unique key that it has now, else empty, $4 text queue that it is moved to, or empty, $5 bigint[] one priority, or empty, $6 text why, or
-- empty, $7 text who, or empty: the user, $8 bool whether a queue that nobody has is meant, $9 bigint signal that is discarded, or
-- replaced, $10 text by which payload (JSON)
-- One row: the instance's id, and its seq and status now; whether it was executing. What is refused is an error: see _gd_operate.
select o.id, o.seq, o.status, o.executed
from :"schema"._gd_operate($1::text, case when cardinality($3::bytea[]) = 0 then $2::bigint end, null, ($3::bytea[])[1],
  :"schema"._gd_known_queue(nullif($4::text, ''), $8::bool), ($5::bigint[])[1]::int, nullif($6::text, ''), nullif($7::text, ''),
  $9::bigint, case when $1::text = 'replace' then $10::text::jsonb end) o
