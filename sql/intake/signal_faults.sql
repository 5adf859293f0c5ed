-- What is wrong with signals that a person has written by hand: _gd_signal_fault says how much of that is told.
-- $1 bigint[] target, or null, $2 bytea[] the unique key that it has now, or null, $3 text[] name, $4 text[] payload, JSON
-- A row for each, in their order: fault, or null.
select :"schema"._gd_signal_fault(
    case when x.key is null then x.target else (select o.id from :"schema".gen_durable o where o.unique_guard = x.key) end,
    x.name, x.payload::jsonb) as fault
from unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[]) with ordinality x (target, key, name, payload, n)
order by x.n
