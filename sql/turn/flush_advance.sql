-- Writes `next` outcomes, to which no failure led, of rows that go on at once: they stay executing, under a new lease
-- token. No indexed column changes, so that the new version stays on its page and no index is written (HOT): the lease's end
-- is the heartbeat's, and eligible_at keeps the row's place in its queue. Signals that an applied outcome consumed go as in
-- flush.
-- A row without id: the list of those that are done. A row: stale. No row: a stranger holds the row's lock, or has
-- changed it since the snapshot (or it is deleted); try again.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON), $5 bigint[] ids of
-- the signals consumed by all of them, $6 text the new token of all
-- include parts/held_next.sql
-- include parts/write_advance.sql
  from held h
  where g.ctid = h.tuple and h.fenced
  returning g.id
),
-- include parts/consumed.sql
-- include parts/flushed.sql
