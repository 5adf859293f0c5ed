-- gd_status also tells how many transitions an instance has made, and how many of its tries ended with their process.
drop function :"schema".gd_status(bigint);

-- One instance, as it is. No row: there is no such instance.
create function :"schema".gd_status(target bigint)
returns table (
  id bigint, fsm text, version int, step text, status text, state jsonb, result jsonb, awaits text, queue text,
  priority smallint, attempt int, last_error text, locked_by text, wake_reason text, eligible_at timestamptz,
  deadline timestamptz, lease_expires_at timestamptz, inserted_at timestamptz, updated_at timestamptz, inbox bigint,
  partition_key text, unique_key bytea, seq bigint, crashes int)
language sql stable
begin atomic
  select g.id, g.fsm, g.fsm_version, g.step, g.status::text, g.state, g.result, g.awaits, g.queue, g.priority,
    g.attempt, g.last_error, g.locked_by, g.wake_reason, g.eligible_at, g.deadline, g.lease_expires_at, g.inserted_at,
    g.updated_at,
    (select count(*) from :"schema".signals s where s.target_id = g.id and s.consumed_at is null), g.partition_key,
    g.unique_key, g.seq, g.crashes
  from :"schema".gen_durable g
  where g.id = gd_status.target;
end;

select :"schema".gd_note_version(15);
