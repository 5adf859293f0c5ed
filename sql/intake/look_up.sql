-- One instance, as it is. Times in us since 1970. No row: there is no such instance.
-- $1 bigint id, or $3 bytea[] one unique key that it has now, else empty; $2 bigint the most that is read of its state, and of
-- its result: longer ones are empty. What is not compressed takes at most four times its text, and a number of 8 bytes prints up
-- to 131,072 digits: those are counted before anything is printed. Names, keys and reasons that are longer than any of ours are
-- cut.
select g.id, left(g.fsm, 1025) as fsm, g.fsm_version as version, left(g.step, 1025) as step, g.status::text as status,
  t.printed[1] as state, t.printed[2] as result, left(g.awaits, 1025) as awaits,
  case when g.awaits_also is not null
       then array(select left(n.name, 1025) from unnest(g.awaits_also) with ordinality as n (name, i) order by n.i limit 16) end as
    awaits_also, left(g.queue, 1025) as queue, g.priority,
  g.attempt, g.crashes + coalesce(g.excused, 0) as crashes, g.trials, left(g.last_error, $2::int) as last_error, left(g.locked_by, 2048) as locked_by, g.wake_reason,
  :"schema"._gd_us(g.eligible_at) as eligible_at_us,
  :"schema"._gd_us(g.deadline) as deadline_us,
  :"schema"._gd_us(g.lease_expires_at) as lease_expires_at_us,
  :"schema"._gd_us(g.inserted_at) as inserted_at_us,
  :"schema"._gd_us(g.updated_at) as updated_at_us,
  (select count(*) from :"schema".gen_durable_signals s where s.target_id = g.id and s.consumed_at is null) as inbox, g.seq, left(g.traceparent, 55) as traceparent,
  left(g.partition_key, 4096) as partition_key, substring(g.unique_key for 4096) as unique_key
from :"schema".gen_durable g
cross join lateral (
  select array_agg(case when octet_length(p.text) > $2::bigint then '' else p.text end order by p.n) as printed
  from (
    select x.n,
-- include parts/value_text.sql
      as text
    from (values (1, g.state), (2, g.result)) x (n, value)
    offset 0
  ) p
) t
where g.id = case when cardinality($3::bytea[]) = 0 then $1::bigint
                  else (select o.id from :"schema".gen_durable o where o.unique_guard = ($3::bytea[])[1]) end
