  select s.target_id,
    sum(pg_column_size(s.payload)) <= 2000 and bool_and(pg_column_compression(s.payload) is null) as short
  from :"schema".signals s
  where s.target_id = any(array(select p.id from picked p)) and s.consumed_at is null
  group by s.target_id
