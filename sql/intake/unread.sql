-- The oldest signals of an instance that it has not consumed. Time in us since 1970. Names and keys that are longer than any of ours
-- are cut, and payloads; those that take more, or whose numbers would print so much, are null.
-- $1 bigint instance; $2 int how many signals at the most; $3 int characters of a payload; $4 int bytes that one takes
-- A row for each.
select s.id, left(s.name, 1025) as name, left(s.dedup_key, 4096) as dedup_key, :"schema"._gd_us(s.inserted_at) as inserted_at_us,
  case when pg_column_size(x.value) <= $4::int and coalesce((
-- include parts/digits.sql
    ), 0) <= 68000 then left(x.value::text, $3::int) end as payload
from (select * from :"schema".gen_durable_signals s where s.target_id = $1::bigint and s.consumed_at is null offset 0) s
cross join lateral (select s.payload as value) x
order by s.id
limit $2::int
