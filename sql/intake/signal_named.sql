-- What signal does, to the targets that lock_named has found and locked.
-- $1 to $5 as in signal.
-- Rows as those of signal.
with entry as materialized (
-- include parts/signal_entry.sql
  from unnest(current_setting('gd.targets')::bigint[], $1::text[], $2::text[], $3::text[], $5::text[]) with ordinality
-- include parts/signal_stored.sql
