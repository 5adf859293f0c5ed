-- Ends the transaction with an error, 55000, if the sequence of these ids stands behind its rows: before others are drawn in the
-- place of some that were taken.
-- $1 text: the table
select :"schema"._gd_refuse('55000', f.fault)
from (select :"schema"._gd_ids_fault($1::text) as fault) f
where f.fault is not null
