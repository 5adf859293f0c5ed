-- What is due in a queue begins again. $1 text queue, $2 bool whether one that nobody has is meant. One row: whether it was paused.
-- What is refused is an error: see gd_resume.
select :"schema".gd_resume($1::text, $2::bool) as resumed
