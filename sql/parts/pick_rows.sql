-- Of pick and pick_keyed: takes what was claimed, and returns it with its inbox.
picked as (
  update :"schema".gen_durable g
  set status = 'executing', locked_by = $5::text,
      lease_expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
      updated_at = clock_timestamp()
  where g.ctid = any(array(select c.tuple from claimed c))
  returning g.id, g.fsm, g.fsm_version, g.step, g.state, g.attempt, g.wake_reason, g.priority, g.eligible_at,
    g.partition_key, case when g.unique_key is not null then g.unique_scope::text[] end as unique_scope
), addressed as materialized (
  select distinct s.target_id
  from :"schema".signals s
  where s.target_id = any(array(select p.id from picked p)) and s.consumed_at is null
)
select p.id, p.fsm, p.fsm_version, p.step, p.state::text as state, p.attempt, p.wake_reason,
  null::bigint[] as ids, null::text[] as names, null::text[] as payloads, p.partition_key, p.unique_scope, p.priority,
  p.eligible_at
from picked p
where (p.id in (select a.target_id from addressed a)) is not true
union all
select p.id, p.fsm, p.fsm_version, p.step, p.state::text, p.attempt, p.wake_reason,
  inbox.ids, inbox.names, inbox.payloads, p.partition_key, p.unique_scope, p.priority, p.eligible_at
from picked p
cross join lateral (
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload::text) as payloads
  from (
    select s.id, s.name, s.payload,
      sum(octet_length(s.payload::text)) over (order by s.id rows between unbounded preceding and 1 preceding) as before
    from (select * from :"schema".signals s where s.target_id = p.id and s.consumed_at is null offset 0) s
    order by s.id
    limit $7::int
  ) s
  where s.before is null or s.before < 8388608
) inbox
where (p.id in (select a.target_id from addressed a)) is true
