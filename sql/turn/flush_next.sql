-- Writes outcomes that are `next`, to which no failure led, of rows whose unique key cannot collide and that have consumed
-- no signal: what flush would write, for less, because no column depends on the kind of outcome.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON)
-- include parts/held_next.sql
applied as (
-- include parts/write_next.sql
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id
)
-- include parts/flushed.sql
