-- Writes `next` outcomes, to which no failure led, of rows that go on at once: they stay executing, under a new lease
-- token. The lease's end is the heartbeat's, and eligible_at keeps the row's place in its queue. Signals that an applied outcome consumed go as in
-- flush.
-- A row without id: the list of those that are done. A row: stale. No row: a stranger holds the row's lock, or has
-- changed it since the snapshot (or it is deleted); try again.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, each once if it is the same of all, $4 text[] state (JSON),
-- $5 bigint[] ids of the signals consumed by all of them, $6 text the new token of all
-- variant flush_advance_ledger: history. Of rows with history: an entry for each outcome that is applied. Their step is in an index:
-- they are written anew, with all of their index entries. $7 text[] metadata (JSON), or null; may be shorter.
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
    from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $7::text[]) as e (id, token, step, state, metadata)
-- end
    order by e.id
  ) e
-- include parts/lock_row.sql
),
applied as (
  update :"schema".gen_durable g
  set seq = g.seq + 1, step = h.step, state = h.state::jsonb, attempt = 0, crashes = 0, excused = null, trials = 0, last_error = null,
      deadline = null, wake_reason = null, locked_by = $6::text, updated_at = clock_timestamp()
-- if history
      , ledger_step = h.step
-- end
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id, g.lease_expires_at
-- if history
    , 'next' as outcome, h.from_step, h.token, h.wake_reason, null::text as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
-- end
), leased as (
  insert into :"schema".gen_durable_leases (token, expires_at, ids)
  select $6::text, least(min(a.lease_expires_at),
-- include parts/first_check.sql
    ), array_agg(a.id)
  from applied a
  having count(*) > 0
),
-- include parts/consumed.sql
-- if history
, ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
-- include parts/entered_again.sql
)
-- end
-- include parts/flushed.sql
