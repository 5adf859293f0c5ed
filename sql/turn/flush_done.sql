-- Writes outcomes that are `done` with the result {}, to which no failure led, of rows whose unique key cannot collide and
-- that have consumed no signal: what flush would write, for less, because no value differs from row to row.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- They are found by one scan for all ids, and their tokens by a hash table: one by one, as for flush, costs more. The sum
-- in the order keeps a plan made for an empty table from reading all of the primary key in its order.
-- $1 bigint[] id (each once), $2 text[] token of each
with held as materialized (
  select g.id, g.ctid as tuple,
    ((g.id, g.locked_by) in (select e.id, e.token from unnest($1::bigint[], $2::text[]) as e (id, token))
      and g.status = 'executing') is true as fenced
  from :"schema".gen_durable g
  where g.id = any($1::bigint[])
  order by g.id + 0
  for no key update skip locked
), applied as (
  update :"schema".gen_durable g
  set status = 'done', seq = g.seq + 1, result = '{}', crashes = 0, trials = 0, last_error = null, awaits = null, deadline = null,
      wake_reason = null,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
  where g.ctid = any(array(select h.tuple from held h where h.fenced))
  returning g.id
)
-- include parts/flushed.sql
