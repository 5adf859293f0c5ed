-- What flush_keep does, for outcomes that end an instance which is kept for no time: it is deleted, with its signals and its
-- history, where it may be. Else it is written, as flush_keep does. A delete needs the row for itself, where an insert
-- of a signal of a stranger's has a share of it: such rows are left out, and so are locked ones.
-- $1 to $17 as in flush_keep, with 0 in $16
with
-- include parts/entry_kept.sql
held as materialized (
-- include parts/held_any.sql
    , g.step as from_step, g.wake_reason, g.old
  from entry e
  cross join lateral (
    select g.ctid as tuple, g.status, g.locked_by, g.unique_key, g.unique_scope, g.step, g.wake_reason,
      g.inserted_at < clock_timestamp() - e.resend_us * interval '1 microsecond'
        and (
          select true
          from :"schema".signals s
          where s.target_id = g.id and s.inserted_at >= clock_timestamp() - e.resend_us * interval '1 microsecond'
          limit 1) is null as old
    from :"schema".gen_durable g
    where g.id = e.id
    for update skip locked
  ) g
),
erased as (
  delete from :"schema".gen_durable g
  where g.ctid = any(array(
    select h.tuple from held h where h.fenced and h.old))
  returning g.id, g.history
),
-- include parts/erased_ledger.sql
,
-- include parts/write_any.sql
-- include parts/write_kept.sql
  where g.ctid = h.tuple and h.fenced and h.holder is null and not h.old
-- include parts/entered_kept.sql
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder
from (select a.id from applied a union all select e.id from erased e) a
union all
select h.id, null, h.holder from checked h where not h.fenced or h.holder is not null
