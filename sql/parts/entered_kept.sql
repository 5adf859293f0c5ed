-- Of flush_keep and flush_erase, behind what has been written: the entries of rows with history.
  returning g.id, case when h.moves then 'next' else h.outcome end as outcome, h.from_step, h.token, h.wake_reason,
    coalesce(h.failure, h.error) as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
),
-- include parts/consumed.sql
, ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
-- include parts/entered_again.sql
)
