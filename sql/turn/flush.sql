-- Writes outcomes of rows without history, and give-backs. Each applies only under its own lease token; signals that an applied
-- outcome consumed go in the same statement, guarded by its RETURNING.
-- A row without id: the list of those that are done. A row with a holder: the row's unique key would become that
-- instance's, too, and nothing was changed. Without: stale, the lease is another's or gone. No row: a
-- stranger holds the row's lock, or has changed it since the snapshot (or it is deleted); try again. A row whose key might
-- collide may wait for a stranger's insert: such rows go in a group of their own, behind lock_timeout.
-- $1 bigint[] id (each once), $2 text[] token, once if it is the same of all, $3 text[] step, $4 text[] state (JSON), $5 bigint[] ids of the signals
-- consumed by all of them, $6 text[] outcome: next, park (next, to a step where the row rests), finish (next, to one that
-- ends it), later (next, after a delay), replay, await, done, stop, release, $7 text[] result (JSON), $8 bigint[] delay of
-- replay or later in us, $9 text[] awaited name, $10 bigint[] its timeout, or park's, in us, or null, $11 bigint[] its
-- deadline in us since 1970, or null, $12 text[] last_error: the reason of a stop, or the failure that led to another
-- outcome, $13 text[] the other awaited names (JSON), or null. All but $1, $2, $5 and $6 may be shorter: what is missing is
-- null.
-- variant flush_ledger: history. Of rows with history: an entry for each outcome that is applied; no give-backs. $14 text[] what has
-- failed where the outcome is a handler's stop, or null; $15 text[] metadata (JSON), or null. These may be shorter, too.
-- variant flush_keep: history keep. Of rows with history or without, for outcomes that end an instance which is deleted some time after
-- that. $16 bigint[] how long it is kept, in us, $17 bigint how young nothing may be that is deleted, in us
-- variant flush_erase: history keep erase. The same of one that is kept for no time, 0 in $16: it is deleted, with its signals and its
-- history, where it may be. Else it is written, as flush_keep does. A delete needs the row for itself, where an insert of a
-- signal of a stranger's has a share of it: such rows are left out, and so are locked ones.
with entry as (
  select e.id, coalesce(e.token, ($2::text[])[1]) as token, e.step, e.state, e.outcome, e.result, e.delay_us, e.awaits, e.timeout_us,
    e.until_us, e.error, e.awaits_also
-- if history
    , e.failure, e.metadata
-- end
-- if keep
    , e.keep_us, $17::bigint as resend_us
-- end
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
              $10::bigint[], $11::bigint[], $12::text[], $13::text[]
-- if history
              , $14::text[], $15::text[]
-- end
-- if keep
              , $16::bigint[]
-- end
    ) as e (id, token, step, state, outcome, result, delay_us, awaits, timeout_us, until_us, error, awaits_also
-- if history
      , failure, metadata
-- end
-- if keep
      , keep_us
-- end
    )
  order by e.id
),
held as materialized (
  select e.*, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
    g.tuple, g.unique_key, g.unique_scope,
    cast(case e.outcome when 'await' then 'awaiting_signal' when 'park' then 'awaiting_signal' when 'done' then 'done'
                        when 'finish' then 'done' when 'stop' then 'failed' else 'runnable' end
         as :"schema".gen_durable_status) as status,
    e.outcome in ('next', 'park', 'finish', 'later') as moves
-- if history
    , g.step as from_step, g.wake_reason
-- end
-- if erase
    , g.old
-- end
  from entry e
-- if not erase
-- include parts/lock_row.sql
-- end
-- if erase
  cross join lateral (
    select g.ctid as tuple, g.status, g.locked_by, g.unique_key, g.unique_scope, g.step, g.wake_reason,
      g.inserted_at < clock_timestamp() - e.resend_us * interval '1 microsecond'
        and (
          select true
          from :"schema".gen_durable_signals s
          where s.target_id = g.id and s.inserted_at >= clock_timestamp() - e.resend_us * interval '1 microsecond'
          limit 1) is null as old
    from :"schema".gen_durable g
    where g.id = e.id
    for update skip locked
  ) g
-- end
),
-- if erase
erased as (
  delete from :"schema".gen_durable g
  where g.ctid = any(array(
    select h.tuple from held h where h.fenced and h.old))
  returning g.id, g.history, g.partition_key
), unlisted_with_it as (
  delete from :"schema".gen_durable_due d
  where d.ctid = any(array(
    select k.due
    from erased a
-- include parts/keyed_place.sql
    where a.partition_key is not null))
),
-- include parts/erased_ledger.sql
,
-- end
-- What is under its own lease and collides with no unique key is written.
checked as materialized (
  select h.*,
    case when h.fenced and h.unique_key is not null and h.status = any(h.unique_scope)
              and not 'executing' = any(h.unique_scope) then (
      select o.id from :"schema".gen_durable o where o.unique_guard = h.unique_key) end as holder
  from held h
), applied as (
  update :"schema".gen_durable g
  set status = h.status,
      unique_guard = case when g.unique_key is not null and h.status = any(g.unique_scope) then g.unique_key end,
      failed_id = case when h.status = 'failed' then g.id end,
      seq = case when h.outcome = 'release' then g.seq else g.seq + 1 end,
      step = case when h.moves then h.step else g.step end,
      state = case when h.moves or h.outcome in ('replay', 'await') then h.state::jsonb else g.state end,
      result = case h.outcome when 'done' then h.result::jsonb when 'finish' then '{}' else g.result end,
      last_error = case when h.outcome = 'release' then g.last_error else h.error end,
      attempt = case when h.moves or h.outcome = 'await' then 0
                     when h.outcome = 'replay' then least(greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0), 2147483646) + 1
                     else g.attempt end,
      crashes = case when h.outcome = 'release' then g.crashes else 0 end,
      excused = case when h.outcome = 'release' then g.excused end,
      trials = case when h.outcome = 'release' then g.trials else 0 end,
      eligible_at = case h.outcome when 'next' then clock_timestamp()
                                   when 'replay' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   when 'later' then clock_timestamp() + h.delay_us * interval '1 microsecond'
                                   else g.eligible_at end,
      awaits = case when h.outcome = 'park' then '' else h.awaits end, -- of no signal's name
      awaits_also = case when h.awaits_also is not null then array(
        select n.name from jsonb_array_elements_text(h.awaits_also::jsonb) with ordinality as n (name, i) order by n.i) end,
      deadline = case when h.outcome in ('replay', 'stop', 'release') then g.deadline
                      when h.timeout_us is not null then clock_timestamp() + h.timeout_us * interval '1 microsecond'
                      else timestamptz 'epoch' + h.until_us / 1000000 * interval '1 second'
                             + h.until_us % 1000000 * interval '1 microsecond' end,
      wake_reason = case when h.outcome in ('replay', 'stop', 'release') then g.wake_reason end,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
-- if history
      , ledger_step = case when g.history > 0 then case when h.moves then h.step else g.step end end
-- end
-- if keep
      , expires_at =
-- include parts/expiry.sql
-- end
  from checked h
  where g.ctid = h.tuple and h.fenced and h.holder is null
-- if erase
    and not h.old
-- end
  returning
-- include parts/due_row.sql
-- if not history
    , g.fsm_version
-- end
-- if history
    , case when h.moves then 'next' else h.outcome end as outcome, h.from_step, h.token, h.wake_reason,
    coalesce(h.failure, h.error) as reason, h.metadata::jsonb as metadata,
-- include parts/entered.sql
-- end
),
-- include parts/listed.sql
,
-- include parts/unlisted.sql
,
-- include parts/consumed.sql
-- if history
, ledger as (
-- include parts/enter.sql
  from applied a
  where a.history > 0
-- include parts/entered_again.sql
)
-- end
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder
-- if not erase
from applied a
-- end
-- if erase
from (select a.id from applied a union all select e.id from erased e) a
-- end
union all
select h.id, null, h.holder from checked h where not h.fenced or h.holder is not null
