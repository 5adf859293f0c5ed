-- How many instances of a version of a machine stand at each step, by status; finished ones at their last. Reads the whole
-- table, as stats does, since no index has the step: for people, not for loops. Names that are longer than any of ours
-- count by their beginnings. $1 text fsm, $2 int version
select g.step, g.status::text as status, count(*) as instances
from (
  select left(g.step, 1025) as step, g.status
  from :"schema".gen_durable g
  where g.fsm = $1::text and g.fsm_version = $2::int) g
group by g.step, g.status
order by g.step, g.status
