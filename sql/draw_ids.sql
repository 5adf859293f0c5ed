-- Draws ids for inserts, beforehand: an insert of unknown fate can then be sent again without
-- duplicating anything (spec [A11]). A block may serve several inserts.
-- $1 int: how many
with ids as materialized (
  select pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable', 'id')::regclass as sequence
)
select nextval(ids.sequence) as id
from ids, generate_series(1, $1::int)
