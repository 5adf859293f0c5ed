-- What the ledger tells. A table's own row type has the columns that somebody adds to it, and these have not: so what they return
-- is said, column by column.

-- What the ledger has of an instance: from one entry on, in their order, or backwards from the newest, or from that one. One of
-- the two: an order that depends on the argument would read all entries for each page.
create function :"schema"._gd_history_id(
  instance bigint, from_seq bigint default null, most int default 100, newest_first boolean default false)
returns table (
  instance_id bigint, seq bigint, at timestamptz, fsm_version int, outcome text, from_step text, to_step text, attempt int,
  token text, by text, wake_reason text, reason text, metadata jsonb, state jsonb)
language sql stable
begin atomic
  select l.instance_id, l.seq, l.at, l.fsm_version, l.outcome, l.from_step, l.to_step, l.attempt, l.token, l.by, l.wake_reason,
    l.reason, l.metadata, l.state
  from (
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = _gd_history_id.instance and not _gd_history_id.newest_first
        and e.seq >= coalesce(_gd_history_id.from_seq, 0)
      order by e.seq
      limit least(greatest(_gd_history_id.most, 1), 10000)
    )
    union all
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = _gd_history_id.instance and _gd_history_id.newest_first
        and e.seq <= coalesce(_gd_history_id.from_seq, 9223372036854775807)
      order by e.seq desc
      limit least(greatest(_gd_history_id.most, 1), 10000)
    )) l
  order by case when _gd_history_id.newest_first then -l.seq else l.seq end;
end;

-- The same of an instance that is named by its id, or by the key that it has.
create function :"schema".gd_history(
  instance bigint default null, from_seq bigint default null, most int default 100, newest_first boolean default false,
  key text default null, key_bytes bytea default null)
returns table (
  instance_id bigint, seq bigint, at timestamptz, fsm_version int, outcome text, from_step text, to_step text, attempt int,
  token text, by text, wake_reason text, reason text, metadata jsonb, state jsonb)
language sql stable
set row_security = off
begin atomic
  select l.*
  from (select :"schema"._gd_address('instance', gd_history.instance, gd_history.key, gd_history.key_bytes) as key offset 0) a
  cross join lateral :"schema"._gd_history_id(
    case when a.key is null then gd_history.instance
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end,
    gd_history.from_seq, gd_history.most, gd_history.newest_first) l;
end;

-- Instances with history that are in a step, the newest first: before one, and with a status, if these are given; those with
-- another one are passed over, however many. Compared such that no other index has the order, and that the scan ends where the
-- step ends: comparing rows ends one only by their first column.
create function :"schema".gd_in_step(
  fsm text, step text, status text default null, before bigint default null, most int default 100)
returns table (id bigint, version int, status text, seq bigint, updated_at timestamptz)
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set row_security = off
begin atomic
  select g.id, g.fsm_version, g.status::text, g.seq, g.updated_at
  from :"schema".gen_durable g
  where g.fsm = gd_in_step.fsm and g.ledger_step >= gd_in_step.step
    and (g.ledger_step, g.id) < (gd_in_step.step, coalesce(gd_in_step.before, 9223372036854775807))
    and (gd_in_step.status is null or g.status::text = gd_in_step.status)
  order by g.ledger_step desc, g.id desc
  limit least(greatest(gd_in_step.most, 1), 10000);
end;
