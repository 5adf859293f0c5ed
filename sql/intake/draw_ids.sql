-- Draws ids for inserts, beforehand: an insert of unknown fate can then be sent again without
-- duplicating anything. A block may serve several inserts.
-- $1 int: how many
-- A row for each: the id, and when it was drawn, in us since 1970, which becomes the row's inserted_at: it tells the row
-- from another's, if the id is drawn again by a server that has lost its last moments. Behind a promotion, that are ids
-- which nobody has been told: the sequence is raised first.
with followed as materialized (
  select f.timeline from :"schema"._gd_follow_timeline() f
), ids as materialized (
  select coalesce(pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable', 'id'),
                  :"schema"._gd_refuse_ids('gen_durable'))::regclass as sequence,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint as drawn_us
  from followed
)
select nextval(ids.sequence) as id, ids.drawn_us
from ids, generate_series(1, $1::int)
