-- For tests: how long, in us, until the next row becomes eligible, or a deadline or lease ends; null if none will.
-- $1 text[] queues, $2 text[] fsm, $3 int[] version: only those runnable rows are waited for
select ceil(extract(epoch from min(w.at) - statement_timestamp()) * 1000000)::bigint as us
from (
  select g.eligible_at as at
  from :"schema".gen_durable g
  where g.status = 'runnable' and g.queue = any($1::text[])
    and (g.fsm, g.fsm_version) in (select m.fsm, m.version from unnest($2::text[], $3::int[]) as m (fsm, version))
  union all
  select coalesce(g.lease_expires_at, g.deadline)
  from :"schema".gen_durable g
  where g.status in ('executing', 'awaiting_signal')
) w
where w.at > statement_timestamp()
