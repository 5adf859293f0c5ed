-- For tests: how long, in us, until the next row becomes eligible, or a deadline or lease ends; null if none will.
-- What time alone has made due since the last sweep counts, with 0: no drain has seen it. A row that was inserted since
-- is eligible a little later than it was written, hence the second.
-- $1 text[] queues, $2 text[] fsm, $3 int[] version: only those runnable rows are waited for, $4 bigint begin of the last sweep, us since the epoch
select ceil(extract(epoch from min(greatest(w.at, statement_timestamp())) - statement_timestamp()) * 1000000)::bigint as us
from (
  select g.eligible_at as at, g.updated_at + interval '1 second' as written
  from :"schema".gen_durable g
  where g.status = 'runnable' and g.queue = any($1::text[])
    and (g.fsm, g.fsm_version) in (select m.fsm, m.version from unnest($2::text[], $3::int[]) as m (fsm, version))
  union all
  select coalesce(g.lease_expires_at, g.deadline), g.updated_at
  from :"schema".gen_durable g
  where g.status in ('executing', 'awaiting_signal')
) w
where w.at < 'infinity' and (w.at > statement_timestamp()
  or w.at > greatest(w.written, 'epoch'::timestamptz + $4::bigint * interval '1 microsecond'))
