-- Writes outcomes that are `next`, to which no failure led, of rows whose unique key cannot collide and that have consumed
-- no signal: what flush would write, for less, because no column depends on the kind of outcome.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, each once if it is the same of all, $4 text[] state (JSON)
-- variant flush_next_ledger: history. Of rows with history: an entry for each outcome that is applied. An entry that is there already:
-- see flush_done_ledger. $5 text[] metadata (JSON), or null; may be shorter.
with held as materialized (
  select e.id, e.step, e.state, g.tuple, (g.locked_by = e.token and g.status = 'executing') is true as fenced
-- if history
    , e.token, e.metadata, g.step as from_step, g.wake_reason
-- end
  from (
    select e.id, coalesce(e.token, ($2::text[])[1]) as token, coalesce(e.step, ($3::text[])[1]) as step, e.state
-- if history
      , e.metadata
-- end
-- if not history
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as e (id, token, step, state)
-- end
-- if history
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) as e (id, token, step, state, metadata)
-- end
    order by e.id
  ) e
-- include parts/lock_row.sql
),
applied as (
  update :"schema".gen_durable g
  set
-- include parts/runnable.sql
      , seq = g.seq + 1, step = h.step, state = h.state::jsonb, attempt = 0, eligible_at = clock_timestamp(),
      crashes = 0, excused = null, trials = 0, last_error = null, awaits = null, deadline = null, wake_reason = null,
      updated_at = clock_timestamp()
-- if history
      , ledger_step = h.step
-- end
  from held h
  where g.ctid = h.tuple and h.fenced
  returning
-- include parts/due_row.sql
-- if not history
    , g.fsm_version
-- end
-- if history
    , 'next' as outcome, h.from_step, h.token, h.wake_reason, null::text as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
-- end
),
-- include parts/listed.sql
-- if history
, ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
)
-- end
-- include parts/flushed.sql
