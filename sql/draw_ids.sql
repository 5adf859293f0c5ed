-- Draws ids for an insert, beforehand: an insert of unknown fate can then be sent again without
-- duplicating anything (spec [A11]).
-- $1 int: how many
select nextval(pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable', 'id')::regclass) as id
from generate_series(1, $1::int)
