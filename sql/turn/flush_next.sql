-- Writes outcomes that are `next`, to which no failure led, of rows whose unique key cannot collide and that have consumed
-- no signal: what flush would write, for less, because no column depends on the kind of outcome.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON)
-- include parts/held_next.sql
applied as (
  update :"schema".gen_durable g
  set status = 'runnable', seq = g.seq + 1, step = h.step, state = h.state::jsonb, attempt = 0, eligible_at = clock_timestamp(),
      crashes = 0, trials = 0, last_error = null, awaits = null, deadline = null, wake_reason = null,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id
)
-- include parts/flushed.sql
