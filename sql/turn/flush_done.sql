-- Writes outcomes that are `done` with the result {}, to which no failure led, of rows whose unique key cannot collide and
-- that have consumed no signal: what flush would write, for less, because no value differs from row to row. The rows are found by
-- one scan for all ids, and their tokens, if they differ, by a hash table: one by one, as for flush, costs more. The sum in the order keeps a plan
-- made for an empty table from reading all of the primary key in its order.
-- Answers as flush does, without a holder. No row also for one that a stranger has changed since the snapshot.
-- $1 bigint[] id (each once), $2 text[] token of each, once if it is the same
-- variant flush_done_ledger: history. Of rows with history to which no metadata are attached: an entry for each outcome that is
-- applied. One whose entry is there already is an error (see parts/entered_again): that is for flush_ledger, with a row by itself.
-- variant flush_done_keep: keep. Of rows without history that are deleted some time after their end. $3 bigint how long they are
-- kept, in us, $4 bigint how young nothing may be that is deleted, in us
with held as materialized (
  select g.id, g.ctid as tuple,
-- if history
    g.locked_by as token, g.wake_reason,
-- end
    (case when cardinality($2::text[]) = 1 then g.locked_by = ($2::text[])[1]
          else (g.id, g.locked_by) in (select e.id, e.token from unnest($1::bigint[], $2::text[]) as e (id, token)) end
      and g.status = 'executing') is true as fenced
  from :"schema".gen_durable g
  where g.id = any($1::bigint[])
  order by g.id + 0
  for no key update skip locked
), applied as (
  update :"schema".gen_durable g
  set status = 'done', unique_guard = case when g.unique_key is not null and 'done' = any(g.unique_scope) then g.unique_key end,
      seq = g.seq + 1, result = '{}', crashes = 0, excused = null, trials = 0, last_error = null, awaits = null,
      deadline = null, wake_reason = null, locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
-- if keep
      , expires_at =
-- include parts/expiry.sql
  from (
    select $3::bigint as keep_us, $4::bigint as resend_us, cast('done' as :"schema".gen_durable_status) as status
    offset 0) h
-- end
  where g.ctid = any(array(select x.tuple from held x where x.fenced))
  returning g.id, g.partition_key, g.status
-- if history
    , g.step as from_step,
-- include parts/entered.sql
-- end
),
-- include parts/unlisted.sql
-- if history
, ledger as (
-- include parts/enter.sql
  from (
    select a.*, 'done' as outcome, h.token, h.wake_reason, null::text as reason, null::jsonb as metadata
    from applied a
    join held h on h.id = a.id
    where a.history > 0) a
)
-- end
-- include parts/flushed.sql
