-- What flush and flush_ledger do, of rows with history or without, for outcomes that end an instance which is deleted some time
-- after that.
-- $1 to $15 as in flush_ledger. $16 bigint[] how long it is kept, in us, $17 bigint how young nothing may be that is
-- deleted, in us
with
-- include parts/entry_kept.sql
held as materialized (
-- include parts/held_any.sql
    , g.step as from_step, g.wake_reason
  from entry e
-- include parts/lock_row.sql
),
-- include parts/write_any.sql
-- include parts/write_kept.sql
  where g.ctid = h.tuple and h.fenced and h.holder is null
-- include parts/entered_kept.sql
-- include parts/flushed_any.sql
