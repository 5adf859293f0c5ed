-- Parked rows whose deadline has passed, the earliest first. An equation with their status would look like one row to the planner, which
-- is then not taken in the order of the index.
select g.id
from :"schema".gen_durable g
where g.awaits is not null and g.deadline <= statement_timestamp() and g.status not in ('runnable', 'executing', 'done', 'failed')
order by g.deadline
limit $1::int
