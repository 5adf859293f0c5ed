-- Of picked rows: which have unread signals, and whether those are few, short and plain, their names too. Those of all rows together are
-- counted up to 10,000 (n): if there are so many, no row's are known, and none is shown. Where nobody has ever sent one, nothing is looked for.
  select s.target_id, count(*) as n,
    sum(pg_column_size(s.payload)) <= 2000 and sum(octet_length(s.name)) <= 2000
      and bool_and(pg_column_compression(s.payload) is null) as short
  from (
    select s.target_id, s.name, s.payload
    from :"schema".gen_durable_signals s
    where s.target_id = any(array(
        select p.id from picked p where (select pg_relation_size(format('%I.gen_durable_signals', :'schema')::regclass) > 0))) and s.consumed_at is null
    limit 10000
  ) s
  group by s.target_id
