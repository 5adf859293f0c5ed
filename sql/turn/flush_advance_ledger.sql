-- What flush_advance does, of rows with history, and an entry for each outcome that is applied. Their step is in an index:
-- they are written anew, with all of their index entries.
-- $1 to $6 as in flush_advance; $7 text[] metadata (JSON), or null; may be shorter.
with held as materialized (
  select e.*, g.step as from_step, g.tuple, g.wake_reason, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (
    select *
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $7::text[]) as e (id, token, step, state, metadata)
    order by e.id
  ) e
-- include parts/lock_row.sql
),
-- include parts/write_advance.sql
      , ledger_step = h.step
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id, 'next' as outcome, h.from_step, h.token, h.wake_reason, null::text as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
),
-- include parts/consumed.sql
, ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
-- include parts/entered_again.sql
)
-- include parts/flushed.sql
