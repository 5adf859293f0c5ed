-- Writes outcomes that are `done` with the result {}, to which no failure led, of rows whose unique key cannot collide and
-- that have consumed no signal: what flush would write, for less, because no value differs from row to row.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token of each
with held as materialized (
  select g.id, g.ctid as tuple,
-- include parts/held_done.sql
), applied as (
-- include parts/write_done.sql
  where g.ctid = any(array(select h.tuple from held h where h.fenced))
  returning g.id
)
-- include parts/flushed.sql
