-- Inserts instances under ids drawn beforehand; sent again, it does nothing. In the order of unique keys, or two nodes
-- that insert the same ones deadlock on the index (spec [A7]). Rows with a unique key may wait for a stranger's insert:
-- they go in a group of their own, behind lock_timeout.
-- $1 bigint[] id, $2 text[] fsm, $3 int[] version, $4 text[] step, $5 text[] state (JSON), $6 text[] queue,
-- $7 smallint[] priority, $8 bigint[] delay in us, or null, $9 bigint[] time of eligibility in us since 1970, or null,
-- $10 text[] partition key, or null, $11 bytea[] unique key, or null, $12 text[] its scope: statuses, joined by commas,
-- or null. A column of nulls may be an empty array.
-- As many rows as it reports are inserted; if they are all that were sent, there is nothing left to ask.
insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
  unique_key, unique_scope)
overriding system value
select e.id, e.fsm, e.version, e.step, e.state::jsonb, e.queue, e.priority,
  coalesce(timestamptz 'epoch' + e.at_us / 1000000 * interval '1 second' + e.at_us % 1000000 * interval '1 microsecond',
           clock_timestamp() + coalesce(e.delay_us, 0) * interval '1 microsecond'),
  e.partition_key, e.unique_key, coalesce(cast(string_to_array(e.unique_scope, ',') as :"schema".durable_status[]), '{}')
from unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
            $9::bigint[], $10::text[], $11::bytea[], $12::text[])
  as e (id, fsm, version, step, state, queue, priority, delay_us, at_us, partition_key, unique_key, unique_scope)
order by e.unique_key, e.id
on conflict do nothing
