-- Takes a lease on the most urgent eligible rows of a queue, and returns them with their inbox, in pick order.
-- The claim is "for no key update": "for update" would skip rows that a signal's foreign key check locks.
-- The machines are compared by array_position, which the planner takes to hold for nearly every row; an "= any" it takes
-- to hold for one in 200, and then reads and sorts the whole backlog rather than follow the index.
-- $1 text queue, $2 int limit, $3 text[] machines that this node knows, as fsm/version, $4 text lease token,
-- $5 bigint lease in us, $6 int signals of an inbox at the most; of those, the oldest 8 MiB and one more: a pick that
-- cannot be answered would stop the whole queue. What a step has not been shown wakes it when it parks.
with candidate as materialized (
  select g.id
  from :"schema".gen_durable g
  where g.status = 'runnable' and g.queue = $1::text and g.eligible_at <= statement_timestamp()
    and array_position($3::text[], g.fsm || '/' || g.fsm_version) is not null
    and g.partition_key is null and g.unique_key is null
  order by g.priority, g.eligible_at
  limit $2::int
  for no key update skip locked
), picked as (
  update :"schema".gen_durable g
  set status = 'executing', locked_by = $4::text,
      lease_expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond',
      updated_at = clock_timestamp()
  where g.id = any(array(select id from candidate))
  returning g.id, g.fsm, g.fsm_version, g.step, g.state, g.attempt, g.wake_reason, g.priority, g.eligible_at
)
select p.id, p.fsm, p.fsm_version, p.step, p.state::text as state, p.attempt, p.wake_reason,
  inbox.ids, inbox.names, inbox.payloads
from picked p
cross join lateral (
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload::text) as payloads
  from (
    select s.id, s.name, s.payload,
      sum(octet_length(s.payload::text)) over (order by s.id rows between unbounded preceding and 1 preceding) as before
    from :"schema".signals s
    where s.target_id = p.id and s.consumed_at is null
    order by s.id
    limit $6::int
  ) s
  where s.before is null or s.before < 8388608
) inbox
order by p.priority, p.eligible_at, p.id
