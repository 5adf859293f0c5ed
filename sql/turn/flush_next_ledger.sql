-- What flush_next does, of rows with history, and an entry for each outcome that is applied.
-- An entry that is there already: see flush_done_ledger.
-- $1 to $4 as in flush_next; $5 text[] metadata (JSON), or null; may be shorter.
with held as materialized (
  select e.*, g.step as from_step, g.tuple, g.wake_reason, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) as e (id, token, step, state, metadata)
    order by e.id
  ) e
-- include parts/lock_row.sql
),
applied as (
-- include parts/write_next.sql
      , ledger_step = h.step
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id, 'next' as outcome, h.from_step, h.token, h.wake_reason, null::text as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
)
-- include parts/flushed.sql
