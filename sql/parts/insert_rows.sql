-- Of insert_new and insert, which say what the parameters are.
insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
  unique_key, unique_scope, inserted_at)
overriding system value
select e.id, coalesce(e.fsm, ($2::text[])[1]), coalesce(e.version, ($3::int[])[1]), coalesce(e.step, ($4::text[])[1]),
  e.state::jsonb, coalesce(e.queue, ($6::text[])[1]), coalesce(e.priority, ($7::smallint[])[1]),
  coalesce(timestamptz 'epoch' + e.at_us / 1000000 * interval '1 second' + e.at_us % 1000000 * interval '1 microsecond',
           clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond'),
  e.partition_key, e.unique_key, coalesce(cast(string_to_array(e.unique_scope, ',') as :"schema".durable_status[]), '{}'),
  timestamptz 'epoch' + coalesce(e.drawn_us, ($16::bigint[])[1]) / 1000000 * interval '1 second'
    + coalesce(e.drawn_us, ($16::bigint[])[1]) % 1000000 * interval '1 microsecond'
from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $11::bigint[],
            $12::bigint[], $13::text[], $14::bytea[], $15::text[], $16::bigint[])
  as e (id, fsm, version, step, state, queue, priority, delay_us, at_us, partition_key, unique_key, unique_scope,
        drawn_us)
where
-- include parts/takes_inserts.sql
