-- Wakes the rows that this transaction has parked and for which a signal had come that their step had not looked at.
-- A new statement, so that it sees what was committed before the row's lock was ours.
-- $1 bigint[] parked ids, $2 bigint[] ids of the signals that their steps looked at
with applied as (
  update :"schema".gen_durable g
  set
-- include parts/wake.sql
    wake_reason = 'signal'
  where g.id = any($1::bigint[]) and g.status = 'awaiting_signal' and g.xmin = pg_current_xact_id()::xid
    and ((
      select true from :"schema".gen_durable_signals s
      where s.target_id = g.id and s.name = g.awaits and s.consumed_at is null
        and s.id not in (select unnest($2::bigint[]))
      limit 1
    ) or g.awaits_also is not null and (
      select true from :"schema".gen_durable_signals s
      where s.target_id = g.id and s.name = any(g.awaits_also) and s.consumed_at is null
        and s.id not in (select unnest($2::bigint[]))
      limit 1
    ))
  returning
-- include parts/due_row.sql
    , g.fsm_version
),
-- include parts/listed.sql
select a.id from applied a
