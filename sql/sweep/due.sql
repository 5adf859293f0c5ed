-- The rows whose deadline has passed, the earliest first, for return_row, one by one: when wake_due cannot wake all of them
-- together. $1 int limit. A row for each: its id.
select g.id
from :"schema".gen_durable g
where g.status = 'awaiting_signal' and g.deadline <= statement_timestamp()
order by g.deadline
limit $1::int
