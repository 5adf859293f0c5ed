-- The signals of p, their names cut as a step's is. No row: they print more than 4,096 bytes, and are not shown. For
-- gd.unchecked see pick_rows.
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload) as payloads,
    array_agg(s.traceparent) as traces
  from (
    select s.id, left(s.name, 1025) as name, coalesce(left(s.traceparent, 55), '') as traceparent,
      case when current_setting('gd.unchecked', true) is distinct from 'on' then s.payload::text end as payload
    from (select * from :"schema".gen_durable_signals s where s.target_id = p.id and s.consumed_at is null offset 0) s
    order by s.id
    limit $2::int
  ) s
  having case when sum(octet_length(s.payload) + octet_length(s.name)) <= 4096 then true
              when sum(octet_length(s.payload)) > 68000 then set_config('gd.unchecked', 'on', true) is null end
