-- Parked rows whose deadline has passed, the earliest first.
select g.id
from :"schema".gen_durable g
where g.status = 'awaiting_signal' and g.deadline <= statement_timestamp()
order by g.deadline
limit $1::int
