-- Ends of processes that suspects may still be charged with although it is known by now who has caused them: for exonerate. Forgets
-- what is a day old.
-- A row for each, a thousand at the most: the process, as crashed_in has it.
with old as (
  delete from :"schema".gen_durable_crashes c
  where c.ctid = any(array(
    select c.ctid
    from :"schema".gen_durable_crashes c
    where c.at < clock_timestamp() - interval '1 day'
    limit 1000
    for update skip locked))
)
select c.process
from :"schema".gen_durable_crashes c
where c.open
group by c.process
limit 1000
