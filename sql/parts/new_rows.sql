-- The rows of insert_new, insert and insert_ledger: the first says what the parameters are.
select e.id, coalesce(e.fsm, ($2::text[])[1]) as fsm, coalesce(e.version, ($3::int[])[1]) as version,
  coalesce(e.step, ($4::text[])[1]) as step, e.state::jsonb as state, coalesce(e.queue, ($6::text[])[1]) as queue,
  coalesce(e.priority, ($7::smallint[])[1]) as priority,
  coalesce(timestamptz 'epoch' + e.at_us / 1000000 * interval '1 second' + e.at_us % 1000000 * interval '1 microsecond',
           clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond') as eligible_at,
  e.partition_key, e.unique_key,
  coalesce(cast(string_to_array(e.unique_scope, ',') as :"schema".durable_status[]), '{}') as unique_scope,
  timestamptz 'epoch' + coalesce(e.drawn_us, ($16::bigint[])[1]) / 1000000 * interval '1 second'
    + coalesce(e.drawn_us, ($16::bigint[])[1]) % 1000000 * interval '1 microsecond' as inserted_at, e.traceparent
from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $11::bigint[],
            $12::bigint[], $13::text[], $14::bytea[], $15::text[], $16::bigint[], $17::text[])
  as e (id, fsm, version, step, state, queue, priority, delay_us, at_us, partition_key, unique_key, unique_scope,
        drawn_us, traceparent)
where
-- include parts/takes_inserts.sql
