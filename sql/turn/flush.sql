-- Writes outcomes of rows without history, and give-backs. Each applies only under its own lease token; signals that an applied
-- outcome consumed go in the same statement, guarded by its RETURNING.
-- A row without id: the list of those that are done. A row with a holder: the row's unique key would become that
-- instance's, too, and nothing was changed. Without: stale, the lease is another's or gone. No row: a
-- stranger holds the row's lock, or has changed it since the snapshot (or it is deleted); try again. A row whose key might
-- collide may wait for a stranger's insert: such rows go in a group of their own, behind lock_timeout.
-- $1 bigint[] id (each once), $2 text[] token, $3 text[] step, $4 text[] state (JSON), $5 bigint[] ids of the signals
-- consumed by all of them, $6 text[] outcome: next, park (next, to a step where the row rests), finish (next, to one that
-- ends it), later (next, after a delay), replay, await, done, stop, release, $7 text[] result (JSON), $8 bigint[] delay of
-- replay or later in us, $9 text[] awaited name, $10 bigint[] its timeout, or park's, in us, or null, $11 bigint[] its
-- deadline in us since 1970, or null, $12 text[] last_error: the reason of a stop, or the failure that led to another
-- outcome, $13 text[] the other awaited names (JSON), or null. All but $1, $2, $5 and $6 may be shorter: what is missing is
-- null.
with entry as (
  select *
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
              $10::bigint[], $11::bigint[], $12::text[], $13::text[])
    as e (id, token, step, state, outcome, result, delay_us, awaits, timeout_us, until_us, error, awaits_also)
  order by e.id
),
held as materialized (
-- include parts/held_any.sql
  from entry e
-- include parts/lock_row.sql
),
-- include parts/write_any.sql
  from checked h
  where g.ctid = h.tuple and h.fenced and h.holder is null
  returning g.id
),
-- include parts/consumed.sql
-- include parts/flushed_any.sql
