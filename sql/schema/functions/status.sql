-- One instance, as it is. No row: there is no such instance.
create function :"schema"._gd_status_id(target bigint)
returns table (
  id bigint, fsm text, version int, step text, status text, state jsonb, result jsonb, awaits text, queue text,
  priority smallint, attempt int, last_error text, locked_by text, wake_reason text, eligible_at timestamptz,
  deadline timestamptz, lease_expires_at timestamptz, inserted_at timestamptz, updated_at timestamptz, inbox bigint,
  partition_key text, unique_key bytea)
language sql stable
begin atomic
  select g.id, g.fsm, g.fsm_version, g.step, g.status::text, g.state, g.result, g.awaits, g.queue, g.priority,
    g.attempt, g.last_error, g.locked_by, g.wake_reason, g.eligible_at, g.deadline, g.lease_expires_at, g.inserted_at,
    g.updated_at,
    (select count(*) from :"schema".gen_durable_signals s where s.target_id = g.id and s.consumed_at is null), g.partition_key,
    g.unique_key
  from :"schema".gen_durable g
  where g.id = _gd_status_id.target;
end;

-- One instance, as it is, named by its id, or by the key that it has; with its key as it is shown, and the other names that it
-- awaits. No row: there is none.
create function :"schema".gd_status(
  target bigint default null, key text default null, key_bytes bytea default null)
returns table (
  id bigint, fsm text, version int, step text, status text, state jsonb, result jsonb, awaits text, queue text,
  priority smallint, attempt int, last_error text, locked_by text, wake_reason text, eligible_at timestamptz,
  deadline timestamptz, lease_expires_at timestamptz, inserted_at timestamptz, updated_at timestamptz, inbox bigint,
  partition_key text, unique_key bytea, unique_key_text text, awaits_also text[])
language sql stable
set row_security = off
begin atomic
  select s.*, :"schema"._gd_key_text(s.unique_key), g.awaits_also
  from (
    select :"schema"._gd_address('target', gd_status.target, gd_status.key, gd_status.key_bytes) as key
    offset 0) a
  cross join lateral :"schema"._gd_status_id(
    case when a.key is null then gd_status.target
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end) s
  join :"schema".gen_durable g on g.id = s.id;
end;
