-- What flush does, of rows with history, and an entry for each outcome that is applied; no give-backs.
-- $1 to $13 as in flush. $14 text[] what has failed where the outcome is a handler's stop, or null; $15 text[] metadata
-- (JSON), or null. These may be shorter, too.
with entry as (
  select *
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
              $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[])
    as e (id, token, step, state, outcome, result, delay_us, awaits, timeout_us, until_us, error, awaits_also, failure,
      metadata)
  order by e.id
),
held as materialized (
-- include parts/held_any.sql
    , g.step as from_step, g.wake_reason
  from entry e
-- include parts/lock_row.sql
),
-- include parts/write_any.sql
      , ledger_step = case when h.moves then h.step else g.step end
  from checked h
  where g.ctid = h.tuple and h.fenced and h.holder is null
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
-- include parts/flushed_any.sql
