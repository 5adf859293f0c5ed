-- The oldest signals of an instance that it has not consumed; with $5, those, too, that it has, whose dedup keys are remembered. Time in
-- us since 1970. Names and keys that are longer than any of ours are cut, and payloads; those that take more, or whose numbers would
-- print so much, are null. seen: it waits for that name, and does not wake for this one, for its step has looked at it. undecodable: why
-- not, as the failure that was last tells.
-- $1 bigint instance; $2 int how many signals at the most; $3 int characters of a payload; $4 int bytes that one takes
-- A row for each.
select s.id, left(s.name, 1025) as name, left(s.dedup_key, 4096) as dedup_key, :"schema"._gd_us(s.inserted_at) as inserted_at_us,
  case when pg_column_size(x.value) <= $4::int and coalesce((
-- include parts/digits.sql
    ), 0) <= 68000 then left(x.value::text, $3::int) end as payload,
  coalesce(s.consumed_at is null and g.status = 'awaiting_signal' and g.wake_reason is null
    and (s.name = g.awaits or s.name = any(g.awaits_also)), false) as seen,
  case when s.consumed_at is null and starts_with(g.last_error, f.told)
       then left(substr(g.last_error, length(f.told) + 1), 1000) end as undecodable,
  :"schema"._gd_us(s.consumed_at) as consumed_at_us
from (
  select * from :"schema".gen_durable_signals s where s.target_id = $1::bigint and s.consumed_at is null
  union all
  select * from :"schema".gen_durable_signals s where $5::boolean and s.target_id = $1::bigint and s.consumed_at is not null
  offset 0
) s
cross join lateral (select s.payload as value) x
cross join lateral (select format('signal %s (%s): ', s.name, s.id) as told) f -- as undecodable_signal says
left join lateral (
  select g.status, g.wake_reason, g.awaits, g.awaits_also, g.last_error from :"schema".gen_durable g where g.id = s.target_id offset 0
) g on true
order by s.id
limit $2::int
