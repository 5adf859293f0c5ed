-- One instance, as it is. $1 bigint id. Times in us since 1970. No row: there is no such instance.
select g.id, g.fsm, g.fsm_version, g.step, g.status::text as status, g.state::text as state, g.result::text as result,
  g.awaits, g.queue, g.priority, g.attempt, g.last_error, g.locked_by, g.wake_reason,
  (extract(epoch from g.eligible_at) * 1000000)::bigint as eligible_us,
  (extract(epoch from g.deadline) * 1000000)::bigint as deadline_us,
  (extract(epoch from g.lease_expires_at) * 1000000)::bigint as lease_expires_us,
  (extract(epoch from g.inserted_at) * 1000000)::bigint as inserted_us,
  (extract(epoch from g.updated_at) * 1000000)::bigint as updated_us,
  (select count(*) from :"schema".signals s where s.target_id = g.id and s.consumed_at is null) as inbox,
  g.partition_key, encode(g.unique_key, 'hex') as unique_key
from :"schema".gen_durable g
where g.id = $1::bigint
