-- The signals of p. No row: they print more than 4,096 bytes, and are not shown.
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload) as payloads
  from (
    select s.id, s.name, s.payload::text as payload
    from (select * from :"schema".signals s where s.target_id = p.id and s.consumed_at is null offset 0) s
    order by s.id
    limit $2::int
  ) s
  having sum(octet_length(s.payload)) <= 4096
