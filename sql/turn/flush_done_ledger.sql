-- What flush_done does, of rows with history to which no metadata are attached, and an entry for each outcome that is applied.
-- One whose entry is there already is an error (see parts/entered_again): that is for flush_ledger, with a row by itself.
-- $1 and $2 as in flush_done.
with held as materialized (
  select g.id, g.ctid as tuple, g.locked_by as token, g.wake_reason,
-- include parts/held_done.sql
), applied as (
-- include parts/write_done.sql
  where g.ctid = any(array(select h.tuple from held h where h.fenced))
  returning g.id, g.step as from_step,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from (
    select a.*, 'done' as outcome, h.token, h.wake_reason, null::text as reason, null::jsonb as metadata
    from applied a
    join held h on h.id = a.id
    where a.history > 0) a
)
-- include parts/flushed.sql
