-- Behind what writes outcomes, in their transaction: makes the instances that these carry. What an insert leaves open is filled in from
-- what nodes have made known: the version that it names; else the pinned one; else the newest of the program that ran the step; else
-- the newest that is served, or was served last. Ids are drawn here: whoever carries an insert is not told its id.
-- $1 text[] fsm, $2 bigint[] version that it names, or null, $3 bigint[] newest version of the program, or null, $4 text[] step, or null,
-- $5 text[] state (JSON), $6 text[] queue, or null, $7 smallint[] priority, $8 bigint[] delay in us, or null, $9 bigint[] time of
-- eligibility in us since 1970, or null, $10 text[] partition key, or null, $11 bytea[] unique key, or null, $12 text[] its scope:
-- statuses, joined by commas, or null, $13 text[] traceparent, or null. A column of nulls may be an empty array.
-- A row for each insert, in the order given: fault: none, unknown_machine, version_retired, unknown_step or not_runnable (a time is
-- given, and no function runs in the step); detail: for a sentence; whether it was made; its queue, if it is due. One without a fault that was not made: its unique key, or its id, is another's
-- (key_holders tells whose).
with entry as materialized (
  select e.n, e.fsm, coalesce(m.version, e.named::int, 1) as version, coalesce(e.step, m.initial_step) as step, e.state, coalesce(e.queue, m.queue) as queue,
    e.priority, e.delay_us, e.at_us, e.partition_key, e.unique_key, e.traceparent,
    coalesce(cast(string_to_array(e.unique_scope, ',') as :"schema".gen_durable_status[]), '{}') as unique_scope,
    m.history, m.steps, coalesce(a.status, 'runnable') as status, a.after_us,
    nextval((select pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable', 'id')::regclass)) as id, -- the sequence once
    e.named, case when m.version is null and (e.step is null or e.queue is null) then 'unknown_machine'
         when m.retired then 'version_retired'
         when m.version is not null and not coalesce(e.step, m.initial_step) = any(m.steps) then 'unknown_step'
         when a.status is not null and (e.delay_us is not null or e.at_us is not null) then 'not_runnable'
         else 'none' end as fault
  from :"schema"._gd_follow_timeline()
  cross join unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[], $9::bigint[],
                    $10::text[], $11::bytea[], $12::text[], $13::text[]) with ordinality
    as e (fsm, named, newest, step, state, queue, priority, delay_us, at_us, partition_key, unique_key, unique_scope, traceparent, n)
  left join lateral (
    select m.version, m.initial_step, m.queue, m.steps, m.history, m.retired, m.outside
    from :"schema".gen_durable_machines m
    where m.fsm = e.fsm and (e.named is null or m.version = e.named)
    order by m.retired, m.pinned desc, (m.version = e.newest) desc nulls last, m.served desc,
      case when not m.served then m.last_served end desc nulls last, m.version desc
    limit 1) m on true
  left join lateral (
    select cast(case when (s.step ->> 'rests')::boolean then 'awaiting_signal' when (s.step ->> 'ends')::boolean then 'done' end
                as :"schema".gen_durable_status) as status,
      (s.step ->> 'after_us')::bigint as after_us
    from (select m.outside -> coalesce(e.step, m.initial_step) as step) s) a on true
), made as (
  insert into :"schema".gen_durable as g (
    id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key, unique_key, unique_scope, traceparent, unique_guard,
    history, ledger_step, status, awaits, deadline, result)
  overriding system value
  select e.id, e.fsm, e.version, e.step, e.state::jsonb, e.queue, e.priority,
    coalesce(timestamptz 'epoch' + e.at_us / 1000000 * interval '1 second' + e.at_us % 1000000 * interval '1 microsecond',
             clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond'),
    e.partition_key, e.unique_key, e.unique_scope, e.traceparent,
    case when e.unique_key is not null and e.status = any(e.unique_scope) then e.unique_key end,
    coalesce(e.history, 0), case when e.history > 0 then e.step end, e.status,
    case when e.status = 'awaiting_signal' then '' end, clock_timestamp() + e.after_us * interval '1 microsecond',
    case when e.status = 'done' then jsonb '{}' end
  from entry e
  where e.fault = 'none'
  order by e.unique_key, e.n -- as those of the gateway: or two nodes that insert the same keys deadlock on the index
  on conflict do nothing
  returning
-- include parts/due_row.sql
    , g.wake_reason,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from (
    select m.*, 'insert' as outcome, null as from_step, null as token, null as reason, null::jsonb as metadata
    from made m
    where m.history > 0) a
-- include parts/entered_again.sql
), listed as (
  insert into :"schema".gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at)
  select m.id, m.fsm, m.fsm_version, m.queue, m.partition_key, m.priority, m.eligible_at
  from made m
  where m.status = 'runnable'
)
select e.fault, left(case e.fault
    when 'unknown_machine' then e.fsm || coalesce(' v' || e.named, '')
    when 'version_retired' then e.fsm || ' v' || e.version
    when 'unknown_step' then array_to_string(e.steps, '|') || ' of ' || e.fsm || ' v' || e.version || ', got ' || e.step
    when 'not_runnable' then e.step || ' of ' || e.fsm || ' v' || e.version end, 2000) as detail,
  (e.id in (select m.id from made m)) is true as made,
  case when e.status = 'runnable' and e.delay_us is null then left(e.queue, 1025) end as queue
from entry e
order by e.n
