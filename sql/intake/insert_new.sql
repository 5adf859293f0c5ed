-- Inserts instances without unique keys under ids drawn beforehand, for the first time: all of them, or an error (23505:
-- another row has the place of one). Without "on conflict" each costs a sixth less: no look before, no confirmation in the
-- WAL.
-- $1 bigint[] id, $2 text[] fsm, $3 int[] version, $4 text[] step, $5 text[] state (JSON), $6 text[] queue,
-- $7 smallint[] priority, $8 to $10 the versions that are to take inserts (parts/takes_inserts.sql), each once, $11 bigint[]
-- delay in us, or null, $12 bigint[] time of eligibility in us since 1970, or null, $13 text[] partition key, or null,
-- $14 bytea[] unique key, or null, $15 text[] its scope: statuses, joined by commas, or null, $16 bigint[] when the id was
-- drawn, in us since 1970, $17 text[] traceparent, or null. A column of nulls may be an empty array; one of names,
-- versions, priorities or draws that are all the same has that once.
-- variant insert: again. With unique keys, or what was sent before: sent again, it does nothing. In the order of unique keys, or two
-- nodes that insert the same ones deadlock on the index. Rows with a unique key may wait for a stranger's insert: they go in a
-- group of their own, behind lock_timeout. What became of each, `inserted` tells.
-- variant insert_new_ledger: history. Of a group in which rows are to have history, and their entries; or rest, or end, where they
-- begin. $18 bigint[] ids of rows with history, $19 bigint[] of those with states in it. The steps of these rows in which none runs,
-- each once: $20 text[] fsm, $21 int[] version, $22 text[] step, $23 text[] the status there, $24 bigint[] how long they rest at
-- the most, in us, or null.
-- variant insert_ledger: history again. Both.
with made as (
  insert into :"schema".gen_durable as g (
    id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key, unique_key, unique_scope, inserted_at,
    traceparent, unique_guard
-- if history
    , history, ledger_step, status, awaits, deadline, result
-- end
  )
  overriding system value
-- if history
  select r.*,
    case when r.unique_key is not null and coalesce(a.status, 'runnable') = any(r.unique_scope) then r.unique_key end,
    h.history, case when h.history > 0 then r.step end, coalesce(a.status, 'runnable'),
    case when a.status = 'awaiting_signal' then '' end, clock_timestamp() + a.after_us * interval '1 microsecond',
    case when a.status = 'done' then jsonb '{}' end
  from (
-- end
    select e.id, coalesce(e.fsm, ($2::text[])[1]) as fsm, coalesce(e.version, ($3::int[])[1]) as version,
      coalesce(e.step, ($4::text[])[1]) as step, e.state::jsonb as state, coalesce(e.queue, ($6::text[])[1]) as queue,
      coalesce(e.priority, ($7::smallint[])[1]) as priority,
      coalesce(timestamptz 'epoch' + e.at_us / 1000000 * interval '1 second' + e.at_us % 1000000 * interval '1 microsecond',
               clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond') as eligible_at,
      e.partition_key, e.unique_key,
      coalesce(cast(string_to_array(e.unique_scope, ',') as :"schema".gen_durable_status[]), '{}') as unique_scope,
      timestamptz 'epoch' + coalesce(e.drawn_us, ($16::bigint[])[1]) / 1000000 * interval '1 second'
        + coalesce(e.drawn_us, ($16::bigint[])[1]) % 1000000 * interval '1 microsecond' as inserted_at, e.traceparent
-- if not history
      , case when e.unique_key is not null
                  and 'runnable' = any(cast(string_to_array(e.unique_scope, ',') as :"schema".gen_durable_status[]))
             then e.unique_key end
-- end
    from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $11::bigint[],
                $12::bigint[], $13::text[], $14::bytea[], $15::text[], $16::bigint[], $17::text[])
      as e (id, fsm, version, step, state, queue, priority, delay_us, at_us, partition_key, unique_key, unique_scope,
            drawn_us, traceparent)
    where
-- include parts/takes_inserts.sql
-- if history
  ) r
  cross join lateral (
    select cast(case when r.id in (select unnest($19::bigint[])) then 2
                     when r.id in (select unnest($18::bigint[])) then 1
                     else 0 end as smallint) as history) h
  left join lateral (
    select cast(s.status as :"schema".gen_durable_status) as status, s.after_us
    from unnest($20::text[], $21::int[], $22::text[], $23::text[], $24::bigint[])
      as s (fsm, version, step, status, after_us)
    where s.fsm = r.fsm and s.version = r.version and s.step = r.step
    limit 1) a on true
-- end
-- if again
  order by unique_key, id
  on conflict do nothing
-- end
  returning
-- include parts/due_row.sql
-- if not history
    , g.fsm_version
-- end
-- if history
    , g.wake_reason,
-- include parts/entered.sql
), ledger as (
-- include parts/enter.sql
  from (
    select m.*, 'insert' as outcome, null as from_step, null as token, null as reason, null::jsonb as metadata
    from made m
    where m.history > 0) a
-- include parts/entered_again.sql
-- end
)
insert into :"schema".gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at)
select m.id, m.fsm, m.fsm_version, m.queue, m.partition_key, m.priority, m.eligible_at
from made m
where m.status = 'runnable'
