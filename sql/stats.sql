-- How many instances of each machine are in each status, by queue. Reads the whole table: for people, not for loops.
select g.queue, g.fsm, g.fsm_version, g.status::text as status, count(*) as instances,
  count(*) filter (where g.status = 'runnable' and g.eligible_at > statement_timestamp()) as future
from :"schema".gen_durable g
group by g.queue, g.fsm, g.fsm_version, g.status
order by g.queue, g.fsm, g.fsm_version, g.status
