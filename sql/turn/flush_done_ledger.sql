-- What flush_done does, of rows with history to which no metadata are attached, and an entry for each outcome that is applied.
-- One whose entry is there already is an error (see parts/entered_again): that is for flush_ledger, with a row by itself.
-- $1 and $2 as in flush_done.
with held as materialized (
  select g.id, g.ctid as tuple, g.step as from_step, g.locked_by as token, g.wake_reason,
-- include parts/held_done.sql
), applied as (
-- include parts/write_done.sql
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id, 'done' as outcome, h.from_step, h.token, h.wake_reason, null::text as reason, null::jsonb as metadata,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
)
-- include parts/flushed.sql
